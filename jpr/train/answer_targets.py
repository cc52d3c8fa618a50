"""The answers that a reader is to write: those that its passages contain, as these write them."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jpr.rerank.prompt import Prompts
from jpr.train.batch import BatchBuilder
from jpr.train.dynamic_oracle import Whole
from jpr.train.sampler import CandidateBatch, Dataset

SEPARATOR, END, NONE = -1, -2, -3
"""What stands for the tokens between and after answers, and for none at all."""


def answer_places(
    feed: Dataset,
    listed: CandidateBatch,
    prompts: Prompts,
    longest: int,
    noise: NDArray[np.floating] | None = None,
) -> Whole:
    """Return where the tokens of each question's answers stand (Q, T), or what else they are.

    Every answer once, where the first passage has it first and it is read as a whole, in that order
    or, with noise (Q, …), in an order that it decides; those that would make more than `longest`
    tokens are left out.
    """
    rows = []
    for at, (question, edges) in enumerate(zip(listed.questions, listed.edges, strict=True)):
        found = _first_places(feed, int(question), edges, prompts)
        if noise is not None:
            chance = np.random.default_rng(int(noise[at, 0] * 2**32))
            found = [found[i] for i in chance.permutation(len(found))]
        rows.append(_laid_out(found, longest))
    wide = max([1, *map(len, rows)])
    return np.array([row + [NONE] * (wide - len(row)) for row in rows], dtype=np.int64)


def _first_places(
    feed: Dataset, question: int, edges: Whole, prompts: Prompts
) -> list[tuple[int, int]]:
    """Return where answers of a question begin in the pack's tokens, and their lengths."""
    pack = feed.pack
    first, last = feed.cover_starts[question], feed.cover_starts[question + 1]
    asked = int(pack.question_starts[question + 1] - pack.question_starts[question])
    order = {int(edge): place for place, edge in enumerate(edges) if edge >= 0}
    begin, end = np.searchsorted(pack.span_covers, [first, last])
    found: dict[int, tuple[int, int, int, int]] = {}
    for span in range(int(begin), int(end)):
        cover = int(pack.span_covers[span])
        edge, answer = int(pack.cover_edges[cover]), int(pack.cover_answers[cover])
        offset, length = int(pack.span_offsets[span]), int(pack.span_lengths[span])
        row = int(pack.candidates[edge])
        title = int(pack.title_lengths[row])
        if edge in order and offset + length <= title + max(_room(prompts, asked, title), 0):
            here = (order[edge], offset, int(pack.passage_starts[row]) + offset, length)
            found[answer] = min(here, found.get(answer, here))
    return list(dict.fromkeys((start, length) for *_, start, length in sorted(found.values())))


def _room(prompts: Prompts, asked: int, title: int) -> int:
    """Return how many tokens of a text are read, given those of its question and its title."""
    s, own = prompts.settings, sum(map(len, prompts.words)) + 2  # a number, and the end
    before = min(asked, s.max_question_tokens) + min(title, s.max_title_tokens)
    return s.max_tokens - own - before


def _laid_out(answers: list[tuple[int, int]], longest: int) -> list[int]:
    """Return the places of answers with what stands between and after them."""
    row: list[int] = []
    for start, length in answers:
        if len(row) + length + 1 <= longest:
            row += [*range(start, start + length), SEPARATOR]
    if row:
        row[-1] = END
    return row


def written_out(
    assembler: BatchBuilder, places: Whole, separator: int, end: int, none: int
) -> Tensor:
    """Return the tokens at these places (Q, T), on the assembler's device."""
    at = torch.from_numpy(places).to(assembler.tokens.device)
    base = assembler.passage_starts[0]  # the pack's first token among the assembler's
    tokens = assembler.tokens[(at.clamp(min=0) + base)].long() & 0xFFFF
    for sign, token in ((SEPARATOR, separator), (END, end), (NONE, none)):
        tokens = tokens.masked_fill(at == sign, token)
    return tokens
