"""Candidates of a pack as a joint model takes them: prompts as in `jpr.rerank.prompt`.

They are made of pieces of one array on the device, which holds all tokens. numpy computes what the
pieces are, while the device may still be busy with the step before.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jpr.coverage import starts as segment_starts
from jpr.errors import ConfigError
from jpr.models.candidates import PackedCandidates
from jpr.rerank.prompt import NUMBER, QUESTION, TEXT, TITLE, Prompts
from jpr.train.dynamic_oracle import Ints
from jpr.train.pack import LIMITS, Pack, vocabulary_sha256
from jpr.train.sampler import CandidateBatch


def as_tensor(*pieces: NDArray[np.uint16]) -> Tensor:
    """Return token ids, pieces end to end, in 16 bits: as int16, since devices have no uint16."""
    return torch.from_numpy(np.concatenate(pieces, dtype=np.uint16).view(np.int16))


def concatenate_pieces(tokens: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
    """Return pieces of the tokens end to end: `lengths` (R, S) from `starts` (R, S) on.

    >>> tokens = as_tensor(np.arange(9, dtype=np.uint16))
    >>> concatenate_pieces(tokens, *torch.tensor([[4, 0], [2, 3]])).tolist()
    [4, 5, 0, 1, 2]
    """
    sizes = lengths.flatten()
    total = int(sizes.sum())
    shift = starts.flatten() - (sizes.cumsum(0) - sizes)
    shift, sizes = (one.to(tokens.device, non_blocking=True) for one in (shift, sizes))
    at = torch.repeat_interleave(shift, sizes, output_size=total)
    at += torch.arange(total, device=tokens.device)
    return tokens[at].long() & 0xFFFF  # back from int16


@dataclass(frozen=True, slots=True)
class AnswerSpans:
    """Where answers are in built candidates: each occurrence that was not cut."""

    candidates: Ints  # (S,) ascending: the candidate, counted through all questions
    answers: Ints  # (S,) the pack's number of the answer within its question
    positions: Ints  # (S,) its first token, counted through the passages of its pack …
    first: Ints  # (S,) … and through all candidates
    last: Ints  # (S,) its last token, counted through all candidates


class BatchBuilder:
    """A pack with its tokens on a device, for a model with these prompts."""

    def __init__(self, pack: Pack, prompts: Prompts, device: str = "cpu") -> None:
        """Move the tokens to the device."""
        _check(pack, prompts)
        own: list[int] = []
        self._words: dict[str, tuple[int, int]] = {}  # where each fixed word starts, its length
        for word, tokens in {**prompts.words, NUMBER: prompts.settings.number_tokens}.items():
            self._words[word] = len(own), len(tokens)
            own += tokens
        self._pack, self._layout = pack, prompts.layout
        self.settings, self.device = prompts.settings, torch.device(device)
        words = np.array(own, dtype=np.uint16)
        self.tokens = as_tensor(words, pack.question_tokens, *pack.passage_tokens).to(device)
        """(N,) the fixed words, then all questions, then all passages."""
        self._first_question = len(own)
        self.first_passage = len(own) + len(pack.question_tokens)
        """Where passages begin in `tokens`."""

    def _tensor(self, values: NDArray[np.integer]) -> Tensor:
        return torch.from_numpy(values.astype(np.int64)).to(self.device, non_blocking=True)

    def build(self, batch: CandidateBatch, numbers: Ints | None = None) -> PackedCandidates:
        """Return the candidates of a batch as the model takes them.

        `numbers` (Q, C) are those of their index tokens; by default each has its position.
        """
        exists, layout = batch.present, self._layout
        if numbers is None:
            numbers = np.broadcast_to(np.arange(exists.shape[1]), exists.shape)
        number, index_tokens = numbers[exists], len(self.settings.number_tokens)
        if index_tokens > 1 and number.max(initial=0) >= index_tokens:
            raise ConfigError(
                f"candidate {number.max()}, but the model has {index_tokens} index tokens; "
                "give fewer candidates or use a model with a pointer head"
            )
        asked, edges = batch.flat()
        starts, lengths = self._pieces(asked, edges, number * (index_tokens > 1))
        return PackedCandidates(
            concatenate_pieces(self.tokens, torch.from_numpy(starts), torch.from_numpy(lengths)),
            lengths=self._tensor(lengths.sum(1)),
            counts=tuple(exists.sum(1).tolist()),
            marks=self._tensor(lengths[:, : layout.pooled].sum(1)),
            passage_starts=self._tensor(lengths[:, : layout.title].sum(1)),
            index_ids=self._tensor(number),
            prior=-torch.log1p(self._tensor(self._pack.ranks(asked, edges)[1]).float()),
        )

    def answer_spans(self, batch: CandidateBatch) -> AnswerSpans:
        """Return where answers are in what `build` returns for the same batch."""
        pack, (asked, edges) = self._pack, batch.flat()
        bounds = np.stack([edges, edges + 1]).astype(np.uint32)  # else numpy copies all edges
        covers = np.searchsorted(pack.cover_edges, bounds).astype(np.uint32)
        begin, end = np.searchsorted(pack.span_covers, covers)
        counts = (end - begin) * pack.ranks(asked, edges)[0]
        place = np.repeat(np.arange(len(edges)), counts)
        span = np.arange(len(place)) + np.repeat(begin - segment_starts(counts), counts)
        offset, length = pack.span_offsets[span].astype(np.int64), pack.span_lengths[span]
        row = pack.candidates[edges[place]]
        title = pack.title_lengths[row].astype(np.int64)
        in_text = offset >= title
        piece = np.where(in_text, self._layout.text, self._layout.title)
        within = offset - title * in_text
        _, lengths = self._pieces(asked, edges)
        first = segment_starts(lengths.ravel()).reshape(lengths.shape)[place, piece] + within
        answer = pack.cover_answers[pack.span_covers[span]].astype(np.int64)
        columns = place, answer, pack.passage_starts[row] + offset, first, first + length - 1
        kept = within + length <= lengths[place, piece]
        return AnswerSpans(*(column[kept] for column in columns))

    def _pieces(self, asked: Ints, edges: Ints, number: Ints | int = 0) -> tuple[Ints, Ints]:
        """Return where the pieces of each prompt start in `tokens`, and their lengths (R, pieces).

        `number` says which of the number tokens each prompt has.
        """
        pack, s = self._pack, self.settings
        rows = pack.candidates[edges].astype(np.int64)
        question, after = pack.question_starts[asked], pack.question_starts[asked + 1]
        passage, end = pack.passage_starts[rows], pack.passage_starts[rows + 1]
        title = pack.title_lengths[rows].astype(np.int64)
        asked_tokens = (after - question).clip(max=s.max_question_tokens)
        title_tokens = title.clip(max=s.max_title_tokens)
        known: dict[str, tuple[Ints | int, Ints | int]] = {
            **self._words,
            QUESTION: (self._first_question + question, asked_tokens),
            TITLE: (self.first_passage + passage, title_tokens),
            TEXT: (self.first_passage + passage + title, end - passage - title),
            NUMBER: (self._words[NUMBER][0] + number, 1),
        }
        if "." in known:  # not without a title
            known["."] = known["."][0], known["."][1] * (title_tokens > 0)
        pieces = [np.broadcast_arrays(*known[piece], edges)[:2] for piece in self._layout.pieces]
        starts, lengths = (np.stack(column, 1) for column in zip(*pieces, strict=True))
        room = s.max_tokens - 1 - (lengths.cumsum(1) - lengths)
        lengths[:, :-1] = np.minimum(lengths, room.clip(min=0))[:, :-1]
        return starts, lengths


def _check(pack: Pack, prompts: Prompts) -> None:
    """Reject a pack of another tokenizer, or with fewer tokens than the model reads."""
    if vocabulary_sha256(prompts.tokenizer.get_vocab()) != pack.about["vocabulary_sha256"]:
        raise ConfigError(
            "the pack was made with another tokenizer than the model's; make it again: jpr pack"
        )
    s = prompts.settings
    limits = (s.max_question_tokens, s.max_title_tokens, s.max_tokens)
    for name, limit in zip(LIMITS, limits, strict=True):
        if pack.about["limits"][name] < limit:
            raise ConfigError(
                f"the pack was cut at {name} = {pack.about['limits'][name]}, the model reads "
                f"{limit}; set a lower limit, or make the pack again"
            )
