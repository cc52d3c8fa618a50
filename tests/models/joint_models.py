"""Tiny random joint models, and candidates for them."""

import torch

from jpr.models.bert import Bert
from jpr.models.candidates import PackedCandidates
from jpr.models.config import BertConfig, T5Config
from jpr.models.heads import IndexHead, PointerHead
from jpr.models.joint import JointModel
from jpr.models.t5 import T5, T5Decoder

WORDS = 60
NUMBERS = tuple(range(40, 60))
D = 16


def t5_config(layers: int = 2) -> T5Config:
    return T5Config(WORDS, D, 8, 32, layers, 2, layers)


def pointer_over_bert(seed: int = 0, answers: bool = False) -> JointModel:
    torch.manual_seed(seed)
    bert = Bert(BertConfig(WORDS, D, 1, 2, 32, 32))
    return JointModel(bert, T5Decoder(t5_config()), PointerHead(D), "passages", answers).eval()


def pointer_over_t5(seed: int = 0, answers: bool = False) -> JointModel:
    torch.manual_seed(seed)
    t5 = T5(t5_config())
    return JointModel(t5.encoder, t5.decoder, PointerHead(D), "tokens", answers).eval()


def answers_over_bert() -> JointModel:
    return pointer_over_bert(answers=True)


def answers_over_t5() -> JointModel:
    return pointer_over_t5(answers=True)


def index_over_t5(seed: int = 0) -> JointModel:
    torch.manual_seed(seed)
    t5 = T5(t5_config())
    head = IndexHead(t5.encoder.words, t5.encoder.words.weight, 0, NUMBERS)
    return JointModel(t5.encoder, t5.decoder, head, "tokens").eval()


def index_of_its_own() -> JointModel:
    """An index head whose index tokens are reset: its output has a matrix of its own."""
    model = index_over_t5()
    assert isinstance(model.head, IndexHead)
    model.head.reset_index_tokens()
    return model


POINTERS = [pointer_over_bert, pointer_over_t5, answers_over_bert]
MODELS = [*POINTERS, index_over_t5, index_of_its_own]


def candidates(counts: tuple[int, ...], seed: int = 0) -> PackedCandidates:
    """Random texts of random lengths; the second token is the candidate's number and its mark.

    The passage follows, which may have no token at all, and a last token.
    """
    chance = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 9, (sum(counts),), generator=chance)
    ids = torch.randint(3, 40, (int(lengths.sum()),), generator=chance)
    numbers = torch.cat([torch.arange(count) for count in counts])
    first = lengths.cumsum(0) - lengths
    ids[first + 1] = torch.tensor(NUMBERS)[numbers]
    prior = torch.randn(len(lengths), generator=chance)
    marks = torch.ones_like(lengths)
    return PackedCandidates(ids, lengths, counts, marks, 1 + marks, numbers, prior)


def reordered(given: PackedCandidates, order: list[int]) -> PackedCandidates:
    """One question's candidates in another order, each with its own number."""
    texts = torch.split(given.ids, given.lengths.tolist())
    at = torch.tensor(order)
    return PackedCandidates(
        torch.cat([texts[i] for i in order]),
        given.lengths[at],
        given.counts,
        given.marks[at],
        given.passage_starts[at],
        given.index_ids[at],
        given.prior[at],
    )
