"""Tiny random joint models, and candidates for them."""

import torch

from jpr.models.bert import Bert, BertConfig
from jpr.models.joint import Candidates, IndexHead, JointModel, PointerHead
from jpr.models.t5 import T5, T5Config, T5Decoder

WORDS = 60
NUMBERS = tuple(range(40, 60))
D = 16


def t5_config(layers: int = 2) -> T5Config:
    return T5Config(WORDS, D, 8, 32, layers, 2, layers)


def pointer_over_bert(seed: int = 0, pairs: int = 0) -> JointModel:
    torch.manual_seed(seed)
    bert = Bert(BertConfig(WORDS, D, 1, 2, 32, 32))
    return JointModel(bert, T5Decoder(t5_config()), PointerHead(D, pairs), "passages").eval()


def pointer_over_t5(seed: int = 0, pairs: int = 0) -> JointModel:
    torch.manual_seed(seed)
    t5 = T5(t5_config())
    return JointModel(t5.encoder, t5.decoder, PointerHead(D, pairs), "tokens").eval()


def strong(model: JointModel) -> JointModel:
    """Let pairs count for much, and differ."""
    pairs = model.head.pairs
    assert pairs is not None
    torch.nn.init.constant_(pairs.raw_strength, 0.2)
    for weight in (pairs.score.weight, pairs.left.weight, pairs.right.weight):
        torch.nn.init.normal_(weight, std=0.5)
    return model


def pairs_over_bert() -> JointModel:
    return strong(pointer_over_bert(pairs=8))


def pairs_over_t5() -> JointModel:
    return strong(pointer_over_t5(pairs=8))


def index_over_t5(seed: int = 0) -> JointModel:
    torch.manual_seed(seed)
    t5 = T5(t5_config())
    head = IndexHead(t5.encoder.words, t5.encoder.words.weight, 0, NUMBERS)
    return JointModel(t5.encoder, t5.decoder, head, "tokens").eval()


MODELS = [pointer_over_bert, pointer_over_t5, index_over_t5, pairs_over_bert, pairs_over_t5]
POINTERS = [pointer_over_bert, pointer_over_t5, pairs_over_bert, pairs_over_t5]


def candidates(counts: tuple[int, ...], seed: int = 0) -> Candidates:
    """Random texts of random lengths; the second token is the candidate's number and its mark."""
    chance = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 9, (sum(counts),), generator=chance)
    ids = torch.randint(3, 40, (int(lengths.sum()),), generator=chance)
    numbers = torch.cat([torch.arange(count) for count in counts])
    first = lengths.cumsum(0) - lengths
    ids[first + 1] = torch.tensor(NUMBERS)[numbers]
    prior = torch.randn(len(lengths), generator=chance)
    return Candidates(ids, lengths, counts, torch.ones_like(lengths), numbers, prior)


def reordered(given: Candidates, order: list[int]) -> Candidates:
    """One question's candidates in another order, each with its own number."""
    texts = torch.split(given.ids, given.lengths.tolist())
    at = torch.tensor(order)
    return Candidates(
        torch.cat([texts[i] for i in order]),
        given.lengths[at],
        given.counts,
        given.marks[at],
        given.numbers[at],
        given.prior[at],
    )
