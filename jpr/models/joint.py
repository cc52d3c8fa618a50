"""P(next passage | question, candidates, passages already chosen): the joint model (paper, 3.1).

An encoder reads each candidate apart, together with its question. A decoder attends to all
candidates of a question, takes the passages chosen so far as its input, and a head says how likely
each candidate is to come next:

- `PointerHead`: the decoder's query against a key of every candidate, read off the encoder at the
  candidate's mark. Any number of candidates; their order does not matter.
- `IndexHead`: the paper's. Every candidate has a number, which is a token of its text and of the
  decoder's words; the next passage is the next word.

The decoder's memory is every token (`tokens`, Fusion in Decoder), or one vector per candidate
(`passages`), which suffices where the encoder sees question and passage together.

A model may also read *answers* off its candidates (`jpr.models.heads`), so that passages can be
chosen for the answers they add.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jpr.errors import ConfigError, DataError
from jpr.models.bert import Bert
from jpr.models.heads import SpanHead
from jpr.models.padding import length_mask, pad_rows
from jpr.models.t5 import Memory, T5Decoder, T5Encoder

MEMORIES = ("tokens", "passages")
EncodePacked = Callable[[Tensor, Tensor], Tensor]
"""Maps rows laid end to end, ids (N,) and lengths (B,), to vectors (N, d)."""


@dataclass(frozen=True, slots=True)
class PackedCandidates:
    """The candidates of several questions, laid end to end."""

    ids: Tensor
    """(N,) the tokens of all texts, each of question and passage."""
    lengths: Tensor
    """(R,) tokens per candidate."""
    counts: tuple[int, ...]
    """Candidates per question."""
    marks: Tensor
    """(R,) at which token of its text a candidate is read off."""
    texts: Tensor
    """(R,) at which token of its text the passage begins; it ends before the last."""
    numbers: Tensor
    """(R,) the number that the index head knows a candidate by."""
    prior: Tensor
    """(R,) what the first stage thinks of it, in whatever unit the model was trained with."""


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """What the encoder makes of candidates, ready for any number of prefixes."""

    memory: Tensor
    """(M, d) what the decoder attends to, question after question."""
    memory_lengths: Tensor
    """(Q,)"""
    marked: Tensor
    """(Q, C, d) the vector of each candidate; zeros where a question has fewer."""
    mask: Tensor
    """(Q, C) which candidates there are."""
    numbers: Tensor
    """(Q, C)"""
    prior: Tensor
    """(Q, C)"""
    counts: tuple[int, ...]
    answers: Tensor | None = None
    """(N, 2) log P of each token to begin and to end its candidate's answer, of a model that reads
    answers."""


class PointerHead(nn.Module):
    """Points at candidates: no limit on their number, no meaning in their order."""

    def __init__(self, d: int) -> None:
        """Take the size of vectors."""
        super().__init__()
        self.start = nn.Parameter(torch.randn(d))
        self.query, self.key, self.chosen = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.prior = nn.Parameter(torch.zeros(()))
        self.scale = d**-0.5

    def start_input(self) -> Tensor:
        """Return the decoder's input before anything is chosen (d,)."""
        return self.start

    def keys(self, encoded: EncodedBatch) -> Tensor:
        """Return what the decoder's vectors are compared with (Q, C, d)."""
        keys: Tensor = self.key(encoded.marked)
        return keys

    def inputs(self, encoded: EncodedBatch) -> Tensor:
        """Return the decoder's input after each candidate was chosen (Q, C, d)."""
        chosen: Tensor = self.chosen(self.keys(encoded))
        return chosen

    def logits(self, hidden: Tensor, keys: Tensor, prior: Tensor) -> Tensor:
        """Map the decoder's vectors (Q, T, d) to a number per candidate (Q, T, C)."""
        agreement = self.query(hidden) @ keys.transpose(1, 2)
        logits: Tensor = agreement.float() * self.scale + self.prior * prior[:, None]
        return logits


class IndexHead(nn.Module):
    """Says a candidate's number, one word per number, with the words of a T5."""

    def __init__(
        self, words: nn.Embedding, out: Tensor, start: int, tokens: tuple[int, ...]
    ) -> None:
        """Take a T5's words in and out, the word that starts, and the words that are numbers."""
        super().__init__()
        self.words, self.start_token = words, start
        self.out = nn.Parameter(out) if out is not words.weight else None
        self.register_buffer("tokens", torch.tensor(tokens), persistent=False)
        self.tokens: Tensor

    @torch.no_grad()
    def reset_index_tokens(self) -> None:
        """Give numbers new vectors, far from each other: in as large as words, out of length 1.

        So they are seen among words, and all are about equally likely at first.
        """
        words = self.words.weight
        fresh = F.normalize(torch.randn(len(self.tokens), words.shape[1]), dim=1).to(words)
        if self.out is None:
            self.out = nn.Parameter(words.clone())
        words[self.tokens], self.out[self.tokens] = words.norm(dim=1).mean() * fresh, fresh

    def start_input(self) -> Tensor:
        """Return the decoder's input before anything is chosen (d,)."""
        return self.words.weight[self.start_token]

    def inputs(self, encoded: EncodedBatch) -> Tensor:
        """Return the decoder's input after each candidate was chosen (Q, C, d)."""
        chosen: Tensor = self.words(self._tokens_of(encoded))
        return chosen

    def keys(self, encoded: EncodedBatch) -> Tensor:
        """Return what the decoder's vectors are compared with (Q, C, d): the numbers' words."""
        return self._said()[self._tokens_of(encoded)]

    def logits(self, hidden: Tensor, keys: Tensor, prior: Tensor) -> Tensor:
        """Map the decoder's vectors (Q, T, d) to a number per candidate (Q, T, C)."""
        scale = keys.shape[-1] ** -0.5 if self.out is None else 1.0  # tied words are scaled
        return (hidden @ keys.transpose(1, 2)).float() * scale

    def all_logits(self, hidden: Tensor) -> Tensor:
        """Map the decoder's vectors (Q, T, d) to a logit per number, whether given or not."""
        every = self._said()[self.tokens].expand(len(hidden), -1, -1)
        return self.logits(hidden, every, hidden.new_zeros(len(hidden), 0))

    def _said(self) -> Tensor:
        """Return the words as they are said: those that are read, or others."""
        return self.words.weight if self.out is None else self.out

    def _tokens_of(self, encoded: EncodedBatch) -> Tensor:
        if int(encoded.numbers.max()) >= len(self.tokens):
            raise ConfigError(
                f"{encoded.numbers.max().item() + 1} candidates, but the index head has words for "
                f"{len(self.tokens)} numbers; give fewer candidates or use a pointer head"
            )
        return self.tokens[encoded.numbers]


class JointModel(nn.Module):
    """Encoder, decoder and head together; stateless, so that threads may share it."""

    def __init__(
        self,
        encoder: Bert | T5Encoder,
        decoder: T5Decoder,
        head: PointerHead | IndexHead,
        memory: str = "tokens",
        answers: SpanHead | None = None,
    ) -> None:
        super().__init__()
        if memory not in MEMORIES:
            raise ConfigError(f"memory {memory!r}; choose of {', '.join(MEMORIES)}")
        wide = _width(encoder)
        if wide != decoder.config.d_model:
            told = f"the encoder is {wide} wide, the decoder {decoder.config.d_model}"
            raise ConfigError(f"{told}; they must agree")
        self.encoder, self.decoder, self.head, self.memory = encoder, decoder, head, memory
        self.answers = answers

    def encode(
        self, candidates: PackedCandidates, packed: EncodePacked | None = None
    ) -> EncodedBatch:
        """Read every candidate, each apart from the others; by another `packed` of the encoder."""
        if not candidates.counts or min(candidates.counts) < 1:
            raise DataError("a question has no candidates; give it at least one")
        hidden = (packed or self.encoder.forward_packed)(
            candidates.ids, candidates.lengths
        )  # (N, d)
        first = candidates.lengths.cumsum(0) - candidates.lengths
        marked = hidden[first + candidates.marks]  # (R, d)
        counts = torch.tensor(candidates.counts, device=hidden.device)
        if self.memory == "tokens":
            row = torch.repeat_interleave(counts, output_size=len(marked))
            lengths = torch.zeros_like(counts).index_add(0, row, candidates.lengths)
            memory = hidden
        else:
            lengths, memory = counts, marked
        places = length_mask(counts, int(counts.max()))
        answers = None
        if self.answers is not None:
            answers = self.answers(hidden, candidates.lengths, candidates.texts)
        return EncodedBatch(
            memory,
            lengths,
            pad_rows(marked, places),
            places,
            pad_rows(candidates.numbers, places),
            pad_rows(candidates.prior, places),
            candidates.counts,
            answers,
        )

    def log_probs(
        self, encoded: EncodedBatch, prefixes: Tensor, all_index_tokens: bool = False
    ) -> Tensor:
        """Return log P(candidate | prefix) for every prefix of each question's sequence.

        `prefixes` (Q, T) are numbers of candidates; the result is (Q, T + 1, C), from no passage
        chosen to all T. What is chosen already, or not there, has probability 0. With
        `all_index_tokens`, those of absent candidates share in the probability, as in training.
        """
        inputs = self.head.inputs(encoded)
        chosen = inputs.gather(1, prefixes[..., None].expand(-1, -1, inputs.shape[-1]))
        first = self.head.start_input().to(chosen.dtype).expand(len(prefixes), 1, -1)
        x = torch.cat([first, chosen], dim=1)
        if torch.is_autocast_enabled(x.device.type):
            x = x.float()  # sums of all layers need more digits than their terms
        hidden = self.decoder(x, Memory(encoded.memory, encoded.memory_lengths))
        taken = F.one_hot(prefixes, encoded.mask.shape[1]).cumsum(1) > 0  # (Q, T, C)
        none = torch.zeros_like(taken[:, :1]) if prefixes.shape[1] else _none(encoded)
        taken = torch.cat([none, taken], dim=1)
        logits = self.head.logits(hidden, self.head.keys(encoded), encoded.prior)
        out = taken | ~encoded.mask[:, None]
        if all_index_tokens and isinstance(self.head, IndexHead):
            everything = self.head.all_logits(hidden).logsumexp(dim=-1, keepdim=True)
            return logits.masked_fill(out, -torch.inf) - everything
        return masked_log_softmax(logits, out)


def masked_log_softmax(logits: Tensor, out: Tensor) -> Tensor:
    """Map a number per candidate (…, C) to log-probabilities, those that are `out` having none."""
    return F.log_softmax(logits.masked_fill(out, -torch.inf), dim=-1)


def _width(encoder: Bert | T5Encoder) -> int:
    return encoder.config.hidden_size if isinstance(encoder, Bert) else encoder.config.d_model


def _none(encoded: EncodedBatch) -> Tensor:
    return torch.zeros_like(encoded.mask)[:, None]
