"""Candidates of a pack as a joint model takes them, put together on the device.

The texts are those of `jpr.rerank.prompt`, token by token; here they are made of pieces of one
array that holds all tokens, for any number of questions at once.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
    at = torch.repeat_interleave(shift, sizes, output_size=total)
    at += torch.arange(total, device=tokens.device)
    return tokens[at].long() & 0xFFFF  # back from int16


def truncate_pieces(lengths: Tensor, limit: int) -> Tensor:
    """Return the lengths (R, S) of pieces, each row cut to `limit` tokens in all.

    >>> truncate_pieces(torch.tensor([[3, 1, 4]]), 5).tolist()
    [[3, 1, 1]]
    """
    before = lengths.cumsum(1) - lengths
    return torch.minimum(lengths, (limit - before).clamp(min=0))


@dataclass(frozen=True, slots=True)
class AnswerSpans:
    """Where answers are in built candidates: each occurrence that was not cut."""

    candidates: Tensor  # (S,) ascending: the candidate, counted through all questions
    answers: Tensor  # (S,) the pack's number of the answer within its question
    first: Tensor  # (S,) its first token, counted through all candidates
    last: Tensor  # (S,) its last token


class BatchBuilder:
    """A pack on a device, for a model with these prompts."""

    def __init__(self, pack: Pack, prompts: Prompts, device: str = "cpu") -> None:
        """Move the pack to the device."""
        _check(pack, prompts)
        own: list[int] = []
        self._fixed: dict[str, tuple[int, int]] = {}  # where fixed words start, and their lengths
        for word, tokens in {**prompts.words, NUMBER: prompts.settings.number_tokens}.items():
            self._fixed[word] = len(own), len(tokens)
            own += tokens
        self.settings, self.device = prompts.settings, torch.device(device)
        self._layout = prompts.layout
        words = np.array(own, dtype=np.uint16)
        self.tokens = as_tensor(words, pack.question_tokens, *pack.passage_tokens).to(device)
        """(N,) the fixed words, then all questions, then all passages."""
        self.first_passage = len(own) + len(pack.question_tokens)
        """Where passages begin in `tokens`."""
        self._question_starts = self._tensor(pack.question_starts + len(own))
        self._passage_starts = self._tensor(pack.passage_starts + self.first_passage)
        self._title_lengths = self._tensor(pack.title_lengths)
        self._candidates = self._tensor(pack.candidates)
        self._candidate_starts = self._tensor(pack.candidate_starts)
        first = pack.span_offsets.astype(np.int64)
        last = first + pack.span_lengths - 1
        edges, answers = pack.cover_edges[pack.span_covers], pack.cover_answers[pack.span_covers]
        self._spans = self._tensor(np.stack([edges, answers, first, last]))
        """(4, S) candidates, ascending, answers, first and last tokens within passages."""

    def _tensor(self, values: NDArray[np.integer]) -> Tensor:
        return torch.from_numpy(np.array(values, dtype=np.int64)).to(self.device)

    def build(self, batch: CandidateBatch, numbers: Ints | None = None) -> PackedCandidates:
        """Return the candidates of a batch as the model takes them.

        `numbers` (Q, C) are those of their index tokens; by default each has its position.
        """
        if numbers is None:
            numbers = np.broadcast_to(np.arange(batch.edges.shape[1]), batch.edges.shape)
        asked, all_edges, all_numbers = map(self._tensor, (batch.questions, batch.edges, numbers))
        exists = all_edges >= 0
        known, number = all_edges[exists], all_numbers[exists]
        asked = asked[:, None].expand_as(all_edges)[exists]
        index_tokens = len(self.settings.number_tokens)
        if index_tokens > 1 and len(number) and int(number.max()) >= index_tokens:
            raise ConfigError(
                f"candidate {int(number.max())}, but the model has {index_tokens} index tokens; "
                "give fewer candidates or use a model with a pointer head"
            )
        starts, lengths = self._pieces(asked, self._candidates[known], number)
        return PackedCandidates(
            concatenate_pieces(self.tokens, starts, lengths),
            lengths=lengths.sum(1),
            counts=tuple(batch.present.sum(1).tolist()),
            marks=lengths[:, : self._layout.pooled].sum(1),
            passage_starts=lengths[:, : self._layout.title].sum(1),
            index_ids=number,
            prior=-torch.log1p(self._ranks(asked, known)[1].float()),
        )

    def answer_spans(self, batch: CandidateBatch) -> AnswerSpans:
        """Return where answers are in what `build` returns for the same batch."""
        asked, known = self._tensor(batch.questions), self._tensor(batch.edges)
        asked, known = asked[:, None].expand_as(known).flatten(), known.flatten()
        exists = known >= 0  # the others stay, with length 0: to drop them waits for the device
        known = known.clamp(min=0)
        rows = self._candidates[known]
        lengths = self._pieces(asked, rows, torch.zeros_like(known))[1] * exists[:, None]
        before = (lengths.flatten().cumsum(0) - lengths.flatten()).view_as(lengths)
        begin, end = torch.searchsorted(self._spans[0], torch.stack([known, known + 1]))
        counts = (end - begin) * (exists & self._ranks(asked, known)[0])
        place = torch.repeat_interleave(counts)  # of each span, its candidate's
        entry = (begin - (counts.cumsum(0) - counts))[place]
        entry += torch.arange(len(place), device=self.device)
        answer, first, last = self._spans[1:, entry]
        title = self._title_lengths[rows[place]]
        in_text = first >= title
        piece = torch.where(in_text, self._layout.text, self._layout.title)
        shift = title * in_text
        kept = (last - shift < lengths[place, piece]).nonzero()[:, 0]
        shift = (before[place, piece] - shift)[kept]
        number = exists.cumsum(0) - 1
        return AnswerSpans(
            number[place[kept]], answer[kept], first[kept] + shift, last[kept] + shift
        )

    def _ranks(self, asked: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Return which candidates are the question's own, and their ranks; others rank last."""
        first, after = self._candidate_starts[asked], self._candidate_starts[asked + 1]
        own = (known >= first) & (known < after)
        return own, torch.where(own, known - first, after - first)

    def _pieces(self, asked: Tensor, rows: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return where the pieces of each prompt start and how much of them is read (R, pieces)."""
        s, one = self.settings, torch.ones_like(rows)
        question, passage = self._question_starts[asked], self._passage_starts[rows]
        asked_length = self._question_starts[asked + 1] - question
        title = self._title_lengths[rows]
        text = self._passage_starts[rows + 1] - passage - title
        index, index_tokens = self._fixed[NUMBER]
        known = {word: (one * start, one * length) for word, (start, length) in self._fixed.items()}
        known |= {
            QUESTION: (question, asked_length.clamp(max=s.max_question_tokens)),
            TITLE: (passage, title.clamp(max=s.max_title_tokens)),
            TEXT: (passage + title, text.clamp(max=s.max_tokens)),
            NUMBER: (index + numbers * (index_tokens > 1), one),
        }
        if s.style == "bert":  # no "." without a title
            known["."] = known["."][0], known["."][1] * (known[TITLE][1] > 0)
        starts, lengths = zip(*(known[piece] for piece in self._layout.pieces), strict=True)
        kept = truncate_pieces(torch.stack(lengths[:-1], 1), s.max_tokens - 1)
        return torch.stack(starts, 1), torch.cat([kept, lengths[-1][:, None]], 1)


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
