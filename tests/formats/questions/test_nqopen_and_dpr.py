import csv
import io
from pathlib import Path

import pytest

from jpr.errors import ConfigError, FormatError
from jpr.formats.questions import load_questions, write_questions
from jpr.formats.questions.tab_separated import parse_list
from jpr.types import Question


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("answers", "meaning"),
    [
        ('["a", "", null, 7, "a"]', (("a", "7"),)),
        ('[["a", "b"], [" "], ["c"]]', (("a", "b"), ("c",))),
        ('"a"', (("a",),)),
        ("[]", ()),
        ("null", ()),
    ],
)
def test_a_flat_list_is_one_answer_and_a_nested_one_several(
    answers: str, meaning: tuple[tuple[str, ...], ...], tmp_path: Path
) -> None:
    path = write(tmp_path, "q.jsonl", f'{{"question": "?", "answer": {answers}}}\n')
    assert load_questions(path, "nq-open")[0].answers == meaning


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"question": "?"}', r"jsonl:2: key 'answer' is missing"),
        ('{"question": 5, "answer": ["a"]}', r"jsonl:2: 'question' should be a string"),
        ('{"question": "?", "answer": ["a", ["b"]]}', r"jsonl:2: 'answer' mixes strings and lists"),
        ('{"question": "?", "answer": {"text": "a"}}', r"jsonl:2: an answer in 'answer' should be"),
        ('{"question": "?", "answer": ["a"], "id": [1]}', r"jsonl:2: 'id' should be a string or"),
        ('["question"]', r"jsonl:2: a JSON object is expected"),
    ],
)
def test_a_broken_record_is_named_with_its_line(line: str, says: str, tmp_path: Path) -> None:
    path = write(tmp_path, "q.jsonl", '{"question": "?", "answer": ["a"]}\n' + line + "\n")
    with pytest.raises(FormatError, match=says):
        load_questions(path)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("who", r"csv:2: 1 columns instead of 2"),
        ("who\t['a']\tx", r"csv:2: 3 columns instead of 2"),
        ("who\tAda", r"csv:2: the second column should be a list"),
        ("who\t[open('x')]", r"csv:2: the second column should be a list"),
        ("who\t['a'", r"csv:2: the second column should be a list"),
        ("who\t[" + "'a'," * 40000 + "]", r"csv:2: the second column should be a list"),
        ("who\t[{'a': 1}]", r"csv:2: an answer in 'the second column' should be a string"),
    ],
)
def test_a_broken_line_is_named(line: str, says: str, tmp_path: Path) -> None:
    path = write(tmp_path, "nq.qas.csv", f"who\t['a']\n{line}\n")
    with pytest.raises(FormatError, match=says):
        load_questions(path)


@pytest.mark.parametrize(
    "text",
    ["[" * 10000, "[" + "-" * 100000 + "1]", "[{[]: 1}]", "[" + "9" * 5000 + "]", "['\0']", "x"],
)
def test_what_is_no_list_is_never_evaluated_nor_fatal(text: str) -> None:
    assert parse_list(text) is None


def test_an_escape_python_does_not_know_stays() -> None:
    assert parse_list(r"['\d+']") == [r"\d+"]


QUESTIONS = [
    Question("0", 'who said "go"', (("O'Hara", 'the "Kid"', "tab\there"),)),
    Question("1", "nobody", ()),
]


@pytest.mark.parametrize(("format", "name"), [("nq-open", "q.jsonl"), ("dpr-csv", "q.csv")])
def test_what_is_written_is_read_back(format: str, name: str, tmp_path: Path) -> None:
    stream = io.StringIO()
    write_questions(QUESTIONS, stream, format)
    assert load_questions(write(tmp_path, name, stream.getvalue())) == QUESTIONS


def test_dpr_itself_could_read_what_is_written() -> None:
    stream = io.StringIO()
    write_questions(QUESTIONS[:1], stream, "dpr-csv")
    [[question, answers]] = csv.reader(io.StringIO(stream.getvalue()), delimiter="\t")
    assert question == QUESTIONS[0].text
    assert answers == repr(list(QUESTIONS[0].answers[0]))


@pytest.mark.parametrize("format", ["nq-open", "dpr-csv"])
@pytest.mark.parametrize(
    ("question", "says"),
    [
        (Question("q1", "?", (("x",), ("y",))), "'q1' has 2 distinct answers.* holds one"),
        (Question("q1", "?", regex="x|y"), "'q1' has a regular expression"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(format: str, question: Question, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        write_questions([question], io.StringIO(), format)


def test_a_format_without_a_writer_names_those_with_one() -> None:
    with pytest.raises(ConfigError, match="choose one of jpr, nq-open, dpr-csv"):
        write_questions(QUESTIONS, io.StringIO(), "kilt")
