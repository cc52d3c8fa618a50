"""Batches of texts of like length: little padding, and never more tokens than a budget.

Pure functions over lengths; they know neither texts nor models.
"""

from collections.abc import Iterator, Sequence


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Cut texts, longest first, into batches of at most `budget` tokens with padding.

    A batch lists the places of its texts. A text that alone exceeds the budget is a batch.

    >>> list(batches([3, 9, 2, 4], budget=10))
    [[1], [3, 0], [2]]
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        widest = lengths[batch[0]] if batch else lengths[place]
        if batch and widest * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def padded_tokens(lengths: Sequence[int], parts: Sequence[Sequence[int]]) -> int:
    """Count the tokens of batches, padding included.

    >>> padded_tokens([3, 9, 2, 4], [[1], [3, 0], [2]])
    19
    """
    return sum(len(part) * max(lengths[place] for place in part) for part in parts)
