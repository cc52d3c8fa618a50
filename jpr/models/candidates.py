"""The candidates of several questions as tensors: before the encoder, and after it."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class PackedCandidates:
    """The tokens of all candidates, concatenated."""

    ids: Tensor  # (N,) tokens of all texts, each a question and a passage
    lengths: Tensor  # (R,) tokens per candidate
    counts: tuple[int, ...]  # candidates per question
    marks: Tensor  # (R,) position in its text whose vector represents a candidate
    passage_starts: Tensor  # (R,) where the passage begins; it ends before the last token
    index_ids: Tensor  # (R,) which index token of its question a candidate has
    prior: Tensor  # (R,) first-stage score, in the unit the model was trained with


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """The encoder's output, for any number of decoder steps."""

    memory: Tensor  # (M, d) what the decoder attends to, question after question
    memory_lengths: Tensor  # (Q,)
    marked: Tensor  # (Q, C, d) the vector of each candidate; zeros where a question has fewer
    mask: Tensor  # (Q, C) which candidates exist
    index_ids: Tensor  # (Q, C)
    prior: Tensor  # (Q, C)
    counts: tuple[int, ...]
    answers: Tensor | None = None  # (N, longest) by a span head: logits of the spans from a token
