"""rank_llm's requests and pyserini's DPR runs."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jpr.errors import FormatError
from jpr.formats.runs import load_rankings, write_rankings
from jpr.types import Hit, Passage, Question, Ranking

Save = Callable[..., Path]


REQUEST = """{"query": {"text": "what shines", "qid": 264}, "candidates": [
    {"docid": "m1", "score": 8.5, "doc": {"title": "Moon", "segment": "It shines.", "url": "u"}},
    {"docid": 7, "score": 2, "doc": {"contents": "x", "id": "7"}},
    {"docid": "bare", "score": 1}]}"""
PYSERINI = r"""{"264": {"question": "what shines", "answers": ["moon", "the moon"], "contexts": [
    {"docid": "1", "score": "8.5", "text": "\"The \"\"Moon\"\"\"\nIt shines.", "has_answer": true},
    {"docid": "2", "score": "2", "text": "Sun\nOne.\nTwo.", "has_answer": false},
    {"docid": "3", "score": 1.5, "has_answer": false}]}}"""


def text_of(rankings: list[Ranking], format: str) -> str:
    stream = io.StringIO()
    write_rankings(rankings, stream, format)
    return stream.getvalue()


@pytest.mark.parametrize("text", [f"[{REQUEST}]", " ".join(REQUEST.split()) + "\n"])
def test_rank_llm_requests_are_read_under_every_name_of_the_text(save: Save, text: str) -> None:
    assert load_rankings(save(text)) == [
        Ranking(
            Question("264", "what shines"),
            (
                Hit(Passage("m1", "Moon", "It shines.", {"url": "u"}), 8.5),
                Hit(Passage("7", "", "x"), 2.0),
                Hit(Passage("bare", "", ""), 1.0),
            ),
        )
    ]


def test_rank_llm_requests_are_written_with_the_names_it_reads() -> None:
    moon = Passage("m1", "Moon", "It shines.", {"url": "u"})
    record = json.loads(text_of([Ranking(Question("1", "q"), (Hit(moon, 2.0),))], "rank_llm"))
    document = {"title": "Moon", "text": "It shines.", "url": "u"}
    assert record == {
        "query": {"text": "q", "qid": "1"},
        "candidates": [{"docid": "m1", "score": 2.0, "doc": document}],
    }


@pytest.mark.parametrize("text", [PYSERINI, " ".join(PYSERINI.split("\n"))])
def test_a_pyserini_text_is_its_title_and_its_passage(save: Save, text: str) -> None:
    (ranking,) = load_rankings(save(text))
    assert ranking.question == Question("264", "what shines", (("moon", "the moon"),))
    assert ranking.hits == (
        Hit(Passage("1", 'The "Moon"', "It shines.", {"has_answer": True}), 8.5),
        Hit(Passage("2", "Sun", "One.\nTwo.", {"has_answer": False}), 2.0),
        Hit(Passage("3", "", "", {"has_answer": False}), 1.5),
    )


def test_a_pyserini_run_has_flat_answers_and_two_lines_of_text(save: Save) -> None:
    question = Question("1", "q", (("x", "y"), ("z",)))
    hits = (Hit(Passage("a", '"Heroes"', "One.\nTwo."), 2.0), Hit(Passage("b", "", ""), 1.0))
    text = text_of([Ranking(question, hits), Ranking(Question("2", "r"), ())], "pyserini-run")
    record = json.loads(text)["1"]
    assert record["answers"] == ["x", "y", "z"]
    assert record["contexts"] == [
        {"docid": "a", "score": "2.0", "text": '"""Heroes"""\nOne. Two.'},
        {"docid": "b", "score": "1.0"},
    ]
    again = load_rankings(save(text))
    assert again[0].question == question  # the answers remain distinct
    assert again[0].hits[0].passage == Passage("a", '"Heroes"', "One. Two.")
    assert again[1] == Ranking(Question("2", "r"), ())


@pytest.mark.parametrize(
    ("format", "text", "says"),
    [
        ("rank_llm", "[7]", "run:1: a JSON object is expected"),
        ("rank_llm", '{"query": "q", "candidates": []}', "run:1: 'query' should be an object"),
        ("rank_llm", '{"query": {"qid": 1}, "candidates": []}', "run:1: key 'text' is missing"),
        (
            "rank_llm",
            '{"query": {"text": "q", "qid": []}, "candidates": []}',
            "run:1: 'qid' should be",
        ),
        ("rank_llm", '{"query": {"text": "q"}}', "run:1: key 'candidates' is missing"),
        ("rank_llm", '{"query": {"text": "q"}, "candidates": [3]}', "passage 1: a JSON object"),
        ("rank_llm", '{"query": {"text": "q"}, "candidates": [{}]}', "key 'docid' is missing"),
        ("rank_llm", '{"query": {"text": "q"}, "candidates": [{"docid": 1, "doc": 2}]}', "'doc'"),
        ("rank_llm", REQUEST.replace("\n", " ") + "\n{", "run:2: not valid JSON"),
        ("pyserini-run", "[7]", "run: a JSON object is expected"),
        ("pyserini-run", '{"q": 7}', "run: question 'q': a JSON object is expected"),
        ("pyserini-run", '{"q": {"question": "?"}}', "question 'q': key 'contexts' is missing"),
        ("pyserini-run", '{"q": {"contexts": []}}', "question 'q': key 'question' is missing"),
        (
            "pyserini-run",
            '{"q": {"question": "?", "contexts": [{"id": 1}]}}',
            "passage 1: key 'docid'",
        ),
        ("pyserini-run", '{"q": {"question": "?", "contexts": [3]}}', "passage 1: a JSON object"),
        ("pyserini-run", "{}", "run: holds no record of format pyserini-run"),
        ("ambigprompt", '{"question": "q"}', "run:1: key 'passages' is missing"),
        ("ambigprompt", '{"question": "q", "passages": [1, {}]}', "passage 2: 'id' should be"),
    ],
)
def test_a_broken_file_is_named(save: Save, format: str, text: str, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        load_rankings(save(text), format)
