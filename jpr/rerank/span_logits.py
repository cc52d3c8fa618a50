"""How likely each span of some passages is an answer, without torch."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def span_logits(
    projected: Floats, bias: Floats, lengths: Floats, rows: NDArray[np.int64]
) -> Floats:
    """Return the logits (N, longest) of the spans of 1, 2, … tokens that begin at each token.

    `projected` (N, 2 + 2 · rank) are the vectors of the passages' tokens times the matrix of a
    `SpanWeights`, `bias` and `lengths` its other arrays, `rows` (R,) the numbers of tokens of the
    passages. Spans that do not lie within one passage have −∞.
    """
    count, longest = len(projected), len(lengths)
    begin, end = projected[:, :2].T + bias[:, None]
    first, last = np.split(projected[:, 2:], 2, axis=1)
    left = np.repeat(rows.cumsum(), rows) - np.arange(count)  # tokens to the passage's end
    logits = np.full((count, longest), -np.inf, dtype=np.float32)
    for more in range(min(longest, count)):
        stop = count - more
        both = np.einsum("nr,nr->n", first[:stop], last[more:])
        sums = begin[:stop] + end[more:] + both + lengths[more]
        logits[:stop, more] = np.where(left[:stop] > more, sums, -np.inf)
    return logits
