"""The answers that a reader learns to write: those in its passages, as the passages write them."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jpr.rerank.prompt import Prompts
from jpr.train.batch import BatchBuilder
from jpr.train.dynamic_oracle import Ints
from jpr.train.sampler import CandidateBatch, Dataset

SEPARATOR, END, NONE = -1, -2, -3
"""Stand for the tokens between and after answers, and for padding."""


def answer_positions(
    dataset: Dataset,
    batch: CandidateBatch,
    prompts: Prompts,
    max_tokens: int,
    noise: NDArray[np.floating] | None = None,
) -> Ints:
    """Return the positions in the pack of the target tokens of each question (Q, T).

    Every answer comes once, from the first passage that contains it uncut, in order of appearance
    or, with noise (Q, …), in random order. Answers beyond `max_tokens` in all are left out.
    """
    rows = []
    for at, (question, edges) in enumerate(zip(batch.questions, batch.edges, strict=True)):
        found = _first_occurrences(dataset, int(question), edges, prompts)
        if noise is not None:
            rng = np.random.default_rng(int(noise[at, 0] * 2**32))
            found = [found[i] for i in rng.permutation(len(found))]
        rows.append(_joined(found, max_tokens))
    width = max([1, *map(len, rows)])
    return np.array([row + [NONE] * (width - len(row)) for row in rows], dtype=np.int64)


def _first_occurrences(
    dataset: Dataset, question: int, edges: Ints, prompts: Prompts
) -> list[tuple[int, int]]:
    """Return where answers of a question start in the pack's passages, and their lengths."""
    pack, s = dataset.pack, prompts.settings
    asked = int(pack.question_starts[question + 1] - pack.question_starts[question])
    fixed = sum(map(len, prompts.words.values())) + 1 + min(asked, s.max_question_tokens)
    rank = {int(edge): place for place, edge in enumerate(edges) if edge >= 0}
    first, last = dataset.cover_starts[question], dataset.cover_starts[question + 1]
    begin, end = np.searchsorted(pack.span_covers, [first, last])
    found: dict[int, tuple[int, int, int, int]] = {}
    for span in range(int(begin), int(end)):
        cover = int(pack.span_covers[span])
        edge, answer = int(pack.cover_edges[cover]), int(pack.cover_answers[cover])
        offset, length = int(pack.span_offsets[span]), int(pack.span_lengths[span])
        row = int(pack.candidates[edge])
        title = int(pack.title_lengths[row])
        room = s.max_tokens - fixed - min(title, s.max_title_tokens)  # for the text
        if edge in rank and offset + length <= title + max(room, 0):
            here = (rank[edge], offset, int(pack.passage_starts[row]) + offset, length)
            found[answer] = min(here, found.get(answer, here))
    return list(dict.fromkeys((start, length) for *_, start, length in sorted(found.values())))


def _joined(answers: list[tuple[int, int]], max_tokens: int) -> list[int]:
    """Return the positions of answers, with separators between them and an end."""
    row: list[int] = []
    for start, length in answers:
        if len(row) + length + 1 <= max_tokens:
            row += [*range(start, start + length), SEPARATOR]
    if row:
        row[-1] = END
    return row


def target_tokens(
    builder: BatchBuilder, positions: Ints, separator: int, end: int, padding: int
) -> Tensor:
    """Return the tokens at these positions (Q, T), on the builder's device."""
    at = torch.from_numpy(positions).to(builder.device)
    tokens = builder.tokens[at.clamp(min=0) + builder.first_passage].long() & 0xFFFF
    for sign, token in ((SEPARATOR, separator), (END, end), (NONE, padding)):
        tokens = tokens.masked_fill(at == sign, token)
    return tokens
