"""The answers that a reader is to write: those that its passages contain, as these write them."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jpr.train.assemble import Assembler
from jpr.train.draw import Feed, Listed
from jpr.train.oracle import Whole

SEPARATOR, END, NONE = -1, -2, -3
"""What stands for the tokens between and after answers, and for none at all."""


def answer_places(
    feed: Feed, listed: Listed, longest: int, noise: NDArray[np.floating] | None = None
) -> Whole:
    """Return where the tokens of each question's answers stand (Q, T), or what else they are.

    Every answer once, where the first passage has it first, in that order or, with noise (Q, …),
    in the order of the noise; those that would take more than `longest` tokens are left out.
    """
    rows = []
    for at, (question, edges) in enumerate(zip(listed.questions, listed.edges, strict=True)):
        found = _first_places(feed, int(question), edges)
        if noise is not None:
            found = [found[i] for i in np.argsort(noise[at, : len(found)], kind="stable")]
        rows.append(_laid_out(found, longest))
    wide = max(map(len, rows), default=0)
    return np.array([row + [NONE] * (wide - len(row)) for row in rows], dtype=np.int64)


def _first_places(feed: Feed, question: int, edges: Whole) -> list[tuple[int, int]]:
    """Return where answers of a question begin in the pack's tokens, and their lengths."""
    pack = feed.pack
    first, last = feed.cover_starts[question], feed.cover_starts[question + 1]
    order = {int(edge): place for place, edge in enumerate(edges) if edge >= 0}
    begin, end = np.searchsorted(pack.span_covers, [first, last])
    found: dict[int, tuple[int, int, int, int]] = {}
    for span in range(int(begin), int(end)):
        cover = int(pack.span_covers[span])
        edge, answer = int(pack.cover_edges[cover]), int(pack.cover_answers[cover])
        if edge in order:
            offset, length = int(pack.span_offsets[span]), int(pack.span_lengths[span])
            start = int(pack.passage_starts[pack.candidates[edge]])
            here = (order[edge], offset, start + offset, length)
            found[answer] = min(here, found.get(answer, here))
    return [(start, length) for _, _, start, length in sorted(found.values())]


def _laid_out(answers: list[tuple[int, int]], longest: int) -> list[int]:
    """Return the places of answers with what stands between and after them."""
    row: list[int] = []
    for start, length in answers:
        if len(row) + length + 1 <= longest:
            row += [*range(start, start + length), SEPARATOR]
    if row:
        row[-1] = END
    return row


def written_out(assembler: Assembler, places: Whole, separator: int, end: int, none: int) -> Tensor:
    """Return the tokens at these places (Q, T), on the assembler's device."""
    at = torch.from_numpy(places).to(assembler.tokens.device)
    base = assembler.passage_starts[0]  # the pack's first token among the assembler's
    tokens = assembler.tokens[(at.clamp(min=0) + base)].long() & 0xFFFF
    for sign, token in ((SEPARATOR, separator), (END, end), (NONE, none)):
        tokens = tokens.masked_fill(at == sign, token)
    return tokens
