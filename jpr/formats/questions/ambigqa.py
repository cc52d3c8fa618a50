"""AmbigNQ, light or full: `{"id", "question", "annotations": [{"type", …}]}`, an annotator each.

A `singleAnswer` is one answer; every pair of `multipleQAs` is one. `annotations` keeps them so,
pairs with equal answers apart, because AmbigQA's F1 takes the best annotator and matches pair by
pair. `answers`, what retrieval has to cover, is the union over annotators in which two answers
that share an alias after normalisation are one answer, and so on from there.
"""

from jpr.formats.format import Format, Head
from jpr.formats.gold import Row, united
from jpr.formats.questions.rows import from_lines, ranks
from jpr.types import Question


def _sniff(head: Head) -> bool:
    if not head.has("id", "question", "annotations") or ranks(head):
        return False
    annotations = head.value["annotations"]
    if not annotations and head.has("answers"):
        return False
    return isinstance(annotations, list) and all(
        isinstance(annotation, dict) and "type" in annotation for annotation in annotations
    )


def _question(row: Row) -> Question:
    answers, annotations = united(row.at("annotations").annotations())
    return Question(row.id("id"), row.text("question"), answers, annotations)


FORMAT = Format(
    "ambignq",
    "AmbigNQ, light or full: JSON with id, question and one annotation per annotator",
    _sniff,
    from_lines(_question),
)
