"""MRecall, the one definition for evaluation and training; numpy alone."""

import numpy as np
from numpy.typing import NDArray


def mrecall(
    found: NDArray[np.integer], n_answers: NDArray[np.integer], k: int
) -> NDArray[np.bool_]:
    """Return for which questions k passages contain all answers, or k of them (paper, 2.2)."""
    reached: NDArray[np.bool_] = (found >= np.minimum(n_answers, k)) & (n_answers > 0)
    return reached
