"""The questions that `recipes/encoder.py` learns from: sets, weights, and how they are read."""

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jpr.types import Question

WIKI_TRAIN = {
    "ambignq_train": 4.0,
    "webquestions_train": 3.0,
    "kb_train": 1.0,
    "extra_train": 1.0,
}
"""Sets over the Wikipedia passages, with the weight of a question of each."""
LIKE_SEARCH = {"efficientqa": 3.0, "situatedqa_train": 3.0, "mkqa_sample": 3.0}
"""Sources of extra questions that people typed into a search engine, as AmbigNQ's are."""
DOMAINS = (
    "amazon",
    "conditionalqa",
    "covidqa",
    "medquad",
    "new_wiki",
    "policyqa",
    "realtimeqa",
    "reddit",
    "subjqa",
)
LOOK_ONLY = "subjqa"  # never trained on: its gold answers are far from complete
_GROUNDED = 2
"""Answers of a `kb_train` question with several that passages about its subject must contain."""


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """A training question, with what its file says of it."""

    question: Question
    weight: float
    gold: tuple[str, ...]
    """Ids of the passages that answer it, where its file names them."""

    @property
    def text(self) -> str:
        """The question itself."""
        return self.question.text


def question_file(folder: Path, name: str) -> Path:
    """Return the file of a set, packed or not."""
    packed = folder / f"{name}.jsonl.xz"
    return packed if packed.exists() else folder / f"{name}.jsonl"


def read_questions(path: Path) -> list[TrainingQuestion]:
    """Read the questions of a set that have answers in passages."""
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8") as stream:
        return list(_asked(json.loads(line) for line in stream))


def _asked(records: Iterator[dict[str, object]]) -> Iterator[TrainingQuestion]:
    for record in records:
        groups = record["answers"]
        assert isinstance(groups, list)
        answers = tuple(kept for group in groups if (kept := tuple(a for a in group if a)))
        grounded = record.get("grounded", _GROUNDED)
        assert isinstance(grounded, int)
        if answers and grounded >= min(_GROUNDED, len(answers)):
            gold = record.get("gold", [])
            assert isinstance(gold, list)
            question = Question(str(record["id"]), str(record["question"]), answers)
            weight = LIKE_SEARCH.get(str(record.get("source")), 1.0)
            yield TrainingQuestion(question, weight, tuple(map(str, gold)))
