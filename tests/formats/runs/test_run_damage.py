"""Whatever stands in the place of any part of a record is explained, or does no harm."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jpr.errors import FormatError
from jpr.formats.runs import load_rankings
from jpr.formats.runs.predictions import load_predictions
from tests.damage import damaged

Save = Callable[..., Path]
CTX = {"id": "1", "title": "T", "text": "T\nx", "score": "1.5", "has_answer": True}
GOLD = {
    "id": 1,
    "question": "q",
    "target": "x",
    "regex": "",
    "annotations": [
        {"type": "singleAnswer", "answer": ["x"]},
        {"type": "multipleQAs", "qaPairs": [{"question": "q", "answer": ["x"]}]},
    ],
}
SAMPLES: dict[str, object] = {
    "ctxs": {**GOLD, "answers": ["x", "y"], "ctxs": [CTX]},
    "ambigprompt": {"question": "q", "answers": [[["x"], ["y"]]], "passages": [7, "8"]},
    "rank_llm": {
        "query": {"text": "q", "qid": "1"},
        "candidates": [{"docid": "1", "score": 2, "doc": CTX}],
    },
    "pyserini-run": {"1": {**GOLD, "answers": [["x"], ["y"]], "contexts": [{**CTX, "docid": "2"}]}},
    "answers": {"id": "1", "answers": ["x", {"text": "y"}]},
    "nq": {"question": "q", "prediction": "x"},
    "ambigqa": {"1": [{"question": "q", "answer": "x"}], "2": ["y"], "3": "z"},
}


@pytest.mark.parametrize("format", SAMPLES)
def test_a_wrong_part_is_explained_or_does_no_harm(save: Save, format: str) -> None:
    load = load_predictions if format in ("answers", "nq", "ambigqa") else load_rankings
    load(save(json.dumps(SAMPLES[format])), format)
    problems = []
    for record in damaged(SAMPLES[format]):
        path = save(json.dumps(record))
        for name in (format, None):
            try:
                load(path, name)
            except FormatError as error:
                problems.append(str(error))
    assert problems
    assert all(problem.startswith(f"{path}:") for problem in problems)
