"""MultiSpanQA: `{"data": [{"id", "question": [token], "context": [token], "label": [B/I/O]}]}`.

Every labelled span is an answer, its tokens joined by spaces; spans of one normalised text are one
answer, as in the official script. The test file has no labels: its `answers` are empty.
"""

from collections.abc import Iterator

from jpr.formats.format import Format, Head
from jpr.formats.gold import Aliases, Row, merged
from jpr.formats.questions.rows import from_document
from jpr.types import Question


def _sniff(head: Head) -> bool:
    records = head.value["data"] if head.has("data") else None
    if not isinstance(records, list) or not records or not isinstance(records[0], dict):
        return False
    return all(isinstance(records[0].get(key), list) for key in ("question", "context"))


def _question(row: Row) -> Question:
    spans = _spans(row) if row.has("label") else ()
    return Question(row.id("id"), " ".join(row.strings("question")), merged(spans))


def _spans(row: Row) -> Iterator[Aliases]:
    tokens, labels = row.strings("context"), row.strings("label")
    if len(tokens) != len(labels):
        raise row.error(f"{len(labels)} labels for {len(tokens)} tokens; each token needs one")
    span: list[str] = []
    for token, label in zip([*tokens, ""], [*labels, "O"], strict=True):
        if label not in ("B", "I", "O"):
            raise row.error(f"label {label!r}; known are B, I and O")
        if label != "I" and span:
            yield (" ".join(span),)
            span = []
        if label != "O":
            span.append(token)


FORMAT = Format(
    "multispanqa",
    "MultiSpanQA: one JSON document of tokens with B/I/O labels",
    _sniff,
    from_document("data", _question),
)
