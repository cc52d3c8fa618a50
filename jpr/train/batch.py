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
from jpr.models.joint import PackedCandidates
from jpr.rerank.prompt import Prompts, PromptSettings
from jpr.train.pack import LIMITS, Pack, vocabulary_sha256
from jpr.train.tokens import as_tensor, cut, laid_out


@dataclass(frozen=True, slots=True)
class Spans:
    """Where answers are in assembled candidates: each occurrence of each that is wholly read."""

    candidates: Tensor
    """(S,) ascending: which of the candidates, all questions' counted through."""
    answers: Tensor
    """(S,) the pack's number of the answer within its question."""
    first: Tensor
    """(S,) at which of all tokens it begins."""
    last: Tensor
    """(S,) which is its last."""


@dataclass(frozen=True, slots=True)
class BatchBuilder:
    """A pack on a device, with the words that a model's prompt puts between its texts."""

    settings: PromptSettings
    tokens: Tensor
    """(N,) the prompt's own tokens, then all questions, then all passages."""
    words: dict[str, tuple[int, int]]
    """Where each of the prompt's own words begins, and its length."""
    question_starts: Tensor
    """(Q + 1,) in `tokens`."""
    passage_starts: Tensor
    """(R + 1,) in `tokens`."""
    title_lengths: Tensor
    """(R,)"""
    candidates: Tensor
    """(E,)"""
    candidate_starts: Tensor
    """(Q + 1,)"""
    spans: Tensor
    """(4, S) a candidate, ascending, an answer, and the first and last of its passage's tokens."""

    @classmethod
    def of(cls, pack: Pack, prompts: Prompts, device: str = "cpu") -> "BatchBuilder":
        """Move a pack to a device, for a model that reads such prompts."""
        _check(pack, prompts)
        own = _own_words(prompts)
        ends = np.cumsum([len(tokens) for tokens in own.values()])
        flat = np.concatenate([np.array(tokens, dtype=np.uint16) for tokens in own.values()])
        words = {
            word: (int(end) - len(tokens), len(tokens))
            for (word, tokens), end in zip(own.items(), ends, strict=True)
        }
        base = len(flat) + len(pack.question_tokens)
        return cls(
            prompts.settings,
            as_tensor(flat, pack.question_tokens, *pack.passage_tokens).to(device),
            words,
            torch.tensor(pack.question_starts + len(flat), device=device),
            torch.tensor(pack.passage_starts + base, device=device),
            torch.tensor(pack.title_lengths.astype(np.int64), device=device),
            torch.tensor(pack.candidates.astype(np.int64), device=device),
            torch.tensor(np.asarray(pack.candidate_starts), device=device),
            torch.tensor(_spans(pack), device=device),
        )

    def first_edges(self, questions: Tensor, n: int) -> Tensor:
        """Return the first n candidates of each question (B, n); -1 where it has fewer."""
        edges = self.candidate_starts[questions][:, None] + torch.arange(n, device=questions.device)
        return edges.where(edges < self.candidate_starts[questions + 1][:, None], -1)

    def assemble(self, questions: Tensor, edges: Tensor, numbers: Tensor) -> PackedCandidates:
        """Return chosen candidates of questions (B,).

        `edges` (B, n) are candidates, counted through the whole pack; -1 where a question has
        fewer. `numbers` (B, n) are those that an index head knows them by; a pointer has none.
        """
        chosen = edges >= 0
        known, number = edges[chosen], numbers[chosen]
        asked = questions[:, None].expand_as(edges)[chosen]
        self._check_numbers(number)
        starts, lengths = self._pieces(asked, self.candidates[known], number)
        mark, title, _ = _PLACES[self.settings.style]
        prior = -torch.log1p(self._ranks(asked, known)[1].float())
        ids = laid_out(self.tokens, starts, lengths)
        counts = tuple(chosen.sum(1).tolist())
        return PackedCandidates(
            ids,
            lengths=lengths.sum(1),
            counts=counts,
            marks=lengths[:, :mark].sum(1),
            texts=lengths[:, :title].sum(1),
            numbers=number,
            prior=prior,
        )

    def texts(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Return the titles and texts of candidates (E,) end to end, and the length of each."""
        rows = self.candidates[edges]
        start, title = self.passage_starts[rows], self.title_lengths[rows]
        text = (self.passage_starts[rows + 1] - start - title).clamp(max=self.settings.max_tokens)
        lengths = torch.stack([title, text], 1)
        return laid_out(
            self.tokens, torch.stack([start, start + title], 1), lengths
        ), lengths.flatten()

    def answers(self, questions: Tensor, edges: Tensor) -> Spans:
        """Return where answers are in what `assemble` returns for the same arguments."""
        chosen = edges.flatten() >= 0  # the others stay, of no length: to drop them is to wait
        known = edges.flatten().clamp(min=0)
        rows, asked = self.candidates[known], questions[:, None].expand_as(edges).flatten()
        lengths = self._pieces(asked, rows, torch.zeros_like(known))[1] * chosen[:, None]
        before = (lengths.flatten().cumsum(0) - lengths.flatten()).view_as(lengths)
        own, _ = self._ranks(asked, known)
        place, answer, first, last = self._spans_of(known, chosen & own)
        titled = self.title_lengths[rows[place]]
        _, of_title, of_text = _PLACES[self.settings.style]
        in_text = first >= titled
        piece = torch.where(in_text, of_text, of_title)
        shift = titled * in_text
        read = (last - shift < lengths[place, piece]).nonzero()[:, 0]
        shift = (before[place, piece] - shift)[read]
        number = chosen.cumsum(0) - 1
        return Spans(number[place[read]], answer[read], first[read] + shift, last[read] + shift)

    def _ranks(self, asked: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Tell which candidates are the question's own, and at which rank; others come after."""
        first, after = self.candidate_starts[asked], self.candidate_starts[asked + 1]
        own = (known >= first) & (known < after)
        return own, torch.where(own, known - first, after - first)

    def _spans_of(self, known: Tensor, chosen: Tensor) -> Tensor:
        """Return the spans (4, …) of chosen candidates, each with its place among `known` (R,)."""
        begin, end = torch.searchsorted(self.spans[0], torch.stack([known, known + 1]))
        counts = (end - begin) * chosen
        place = torch.repeat_interleave(counts)
        shift = begin - (counts.cumsum(0) - counts)
        entry = shift[place] + torch.arange(len(place), device=known.device)
        return torch.cat([place[None], self.spans[1:, entry]])

    def _check_numbers(self, numbers: Tensor) -> None:
        known = len(self.settings.number_tokens)
        if known > 1 and len(numbers) and int(numbers.max()) >= known:
            raise ConfigError(
                f"candidate {int(numbers.max())}, but there are tokens for {known} numbers; give "
                "fewer candidates or use a model with a pointer head"
            )

    def _pieces(self, asked: Tensor, rows: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return where each piece begins, and how much of it is read (R, pieces).

        The last piece stays whatever is cut.
        """
        starts, whole = torch.stack(self._whole(asked, rows, numbers)).permute(1, 2, 0)
        room = torch.full_like(rows, self.settings.max_tokens - 1)
        return starts, torch.cat([cut(whole[:, :-1], room), whole[:, -1:]], 1)

    def _whole(self, asked: Tensor, rows: Tensor, numbers: Tensor) -> list[Tensor]:
        """Return where each piece begins and its length (2, R)."""
        question, title, text = self._texts(asked, rows)
        if self.settings.style == "bert":
            first, last, dot = (self._word(word, rows) for word in ("[CLS]", "[SEP]", "."))
            dot[1] *= title[1] > 0
            return [first, question, last, title, dot, text, last]
        number = self._word("numbers", rows)
        if len(self.settings.number_tokens) > 1:
            number[0] += numbers
        number[1] = 1
        ask, index, titled, context, end = (
            self._word(word, rows) for word in ("question:", "index:", "title:", "context:", "</s>")
        )
        return [ask, question, index, number, titled, title, context, text, end]

    def _texts(self, asked: Tensor, rows: Tensor) -> list[Tensor]:
        """Return where questions, titles and texts begin, and the lengths that are read (2, R)."""
        s = self.settings
        begin, text_at = self.question_starts[asked], self.passage_starts[rows]
        question = self.question_starts[asked + 1] - begin
        title = self.title_lengths[rows]
        text = self.passage_starts[rows + 1] - text_at - title
        return [
            torch.stack([begin, question.clamp(max=s.max_question_tokens)]),
            torch.stack([text_at, title.clamp(max=s.max_title_tokens)]),
            torch.stack([text_at + title, text.clamp(max=s.max_tokens)]),
        ]

    def _word(self, word: str, rows: Tensor) -> Tensor:
        """Return where a word of the prompt's begins and its length, for each row (2, R)."""
        start, length = self.words[word]
        return torch.stack([torch.full_like(rows, start), torch.full_like(rows, length)])


_PLACES = {"bert": (0, 3, 5), "t5": (3, 5, 7)}
"""Which of a prompt's pieces is read off, which is the title, and which is the text."""
_OWN = {
    "bert": ("[CLS]", "[SEP]", "."),
    "t5": ("</s>", "question:", "index:", "title:", "context:"),
}


def _own_words(prompts: Prompts) -> dict[str, list[int]]:
    """Return the tokens of the words that stand between the texts."""
    tokens = [*([end] for end in prompts.ends), *prompts.words]
    own = dict(zip(_OWN[prompts.settings.style], tokens, strict=True))
    return {**own, "numbers": list(prompts.settings.number_tokens)}


def _spans(pack: Pack) -> NDArray[np.int64]:
    """Return candidates with where which answer is in their passages, (4, S)."""
    covers, first = np.asarray(pack.span_covers), pack.span_offsets.astype(np.int64)
    owners = pack.cover_edges[covers].astype(np.int64)
    return np.stack([owners, pack.cover_answers[covers], first, first + pack.span_lengths - 1])


def _check(pack: Pack, prompts: Prompts) -> None:
    """Refuse a pack of other tokens than the model's, or of fewer than it reads."""
    if vocabulary_sha256(prompts.tokenizer.get_vocab()) != pack.about["vocabulary_sha256"]:
        raise ConfigError(
            "the pack was made with another tokenizer than the model's; make it again: jpr pack"
        )
    s = prompts.settings
    wanted = (s.max_question_tokens, s.max_title_tokens, s.max_tokens)
    for name, limit in zip(LIMITS, wanted, strict=True):
        held = pack.about["limits"][name]
        if held < limit:
            raise ConfigError(
                f"the pack was cut at {name} = {held}, the model reads {limit}; let it read less, "
                "or make the pack again"
            )
