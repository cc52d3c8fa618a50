"""What a sample file is."""

import json
from dataclasses import dataclass
from pathlib import Path

from jpr.types import Question


@dataclass(frozen=True)
class Sample:
    format: str
    name: str
    text: str
    questions: tuple[Question, ...]

    def write(self, folder: Path) -> Path:
        path = folder / self.name
        path.write_text(self.text, encoding="utf-8")
        return path


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)
