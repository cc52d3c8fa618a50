import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from jpr.cli import app
from jpr.cli.files import all_formats
from tests.cli.running import fails, jpr, questions_file, run_file


def test_evaluate_prints_one_json_object(tmp_path: Path) -> None:
    run = run_file(tmp_path, "run.jsonl", ["red", "grey", "blue"])
    out = jpr(
        "evaluate",
        run,
        "-q",
        questions_file(tmp_path),
        "-m",
        "MRecall@2",
        "-m",
        "MRecall@3",
        "--json",
    )
    (only,) = json.loads(out)["runs"]
    assert (only["run"], only["n"], only["missing"]) == (str(run), 2, ["b"])
    assert only["measures"]["MRecall@2"]["all"] == 0
    assert only["measures"]["MRecall@3"]["all"] == 50
    assert only["measures"]["MRecall@3"]["multi"] == 100


def test_evaluate_compares_with_a_baseline_and_draws(tmp_path: Path) -> None:
    good = run_file(tmp_path, "good.jsonl", ["red", "blue"])
    poor = run_file(tmp_path, "poor.jsonl", ["red", "grey"])
    arguments = (
        "evaluate",
        good,
        "--baseline",
        poor,
        "-q",
        questions_file(tmp_path),
        "-m",
        "MRecall@2",
    )
    assert "+50.0" in jpr(*arguments, "--plots", tmp_path / "plots")
    assert {p.name for p in (tmp_path / "plots").iterdir()} == {"by-answers.svg", "curve.svg"}
    assert "| MRecall@2 |" in jpr(*arguments, "--table", "markdown")
    assert r"\toprule" in jpr(*arguments, "--table", "latex")
    assert json.loads(jpr(*arguments, "--json"))["comparisons"][0]["wins"] == ["a"]


def test_evaluate_a_trec_run_with_its_corpus_or_with_judgements(tmp_path: Path) -> None:
    run = tmp_path / "run.trec"
    run.write_text("a Q0 7 1 2.5 x\na Q0 8 2 1.5 x\n")
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text("7\tred and more\tTitle\n8\tblue and more\tTitle\n")
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("a 1 7 1\na 2 9 1\n")
    out = jpr(
        "evaluate",
        run,
        "-q",
        questions_file(tmp_path),
        "--corpus",
        corpus,
        "-m",
        "MRecall@2",
        "--json",
    )
    assert json.loads(out)["runs"][0]["measures"]["MRecall@2"]["multi"] == 100
    out = jpr("evaluate", run, "--qrels", qrels, "-m", "StRecall@2", "--json")
    assert json.loads(out)["runs"][0]["measures"]["StRecall@2"]["all"] == 50


def test_evaluate_answers(tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"id": "a", "answers": ["Red"]}\n{"id": "b", "answers": ["green"]}\n')
    out = jpr("evaluate", "--answers", answers, "-q", questions_file(tmp_path), "--json")
    measures = json.loads(out)["runs"][0]["measures"]
    assert measures["AnswerF1"]["all"] == pytest.approx(100 * (2 / 3 + 1) / 2)
    assert measures["AnswerF1"]["multi"] == pytest.approx(200 / 3)
    assert measures["EM"]["all"] == 100


def test_the_example_shows_joint_ahead() -> None:
    found = json.loads(jpr("evaluate", "--example", "--json"))
    joint, independent = (run["measures"]["MRecall@5"]["multi"] for run in found["runs"])
    assert joint > independent


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ask", "who", "plays", "mark"], "(plays mark); put quotes"),
        (["evaluate"], "no run is given"),
        (["evaluate", "{run}"], "--questions FILE"),
        (["evaluate", "{run}", "-q", "absent"], "absent: cannot be read"),
        (["evaluate", "{run}", "-q", "{questions}", "-m", "MRecal@5"], "did you mean MRecall"),
        (["evaluate", "{run}", "-q", "{questions}", "--table", "html"], "markdown, latex"),
        (["evaluate", "{questions}", "-q", "{questions}"], "this command reads"),
        (["validate", "{run}", "--from", "nonsense"], "unknown format 'nonsense'"),
        (["validate", "{broken}"], "broken.json:1: not valid JSON"),
        (["convert", "{run}", "out", "--to", "nonsense"], "'nonsense' cannot be written"),
        (["convert", "{run}", "out", "--to", "ambignq"], "'ambignq' cannot be written"),
        (
            ["convert", "{questions}", "out", "--to", "trec"],
            "questions cannot be written as rankings",
        ),
        (["convert", "{questions}", "out", "--to", "jpr", "--split", "words:3"], "--split"),
        (["convert", "{run}", "out", "--to", "tsv", "--split", "pages:3"], "write words:100"),
        (["convert", "{run}", "out", "--to", "tsv", "--split", "words:9:x"], "--split words:9:x"),
        (["convert", "{questions}", "out", "--to", "jpr", "--corpus", "x"], "are for rankings"),
    ],
)
def test_a_users_mistake_is_one_sentence(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    says: str,
) -> None:
    files = {"run": run_file(tmp_path, "run.jsonl", ["red"]), "questions": questions_file(tmp_path)}
    files["broken"] = tmp_path / "broken.json"
    files["broken"].write_text('{"id": 1, "id": 2}')
    monkeypatch.chdir(tmp_path)
    assert says in fails(capsys, monkeypatch, *(argument.format(**files) for argument in arguments))
    assert not (tmp_path / "out").exists()


def test_validate_names_what_a_file_is(tmp_path: Path) -> None:
    assert "questions, format jpr" in jpr("validate", questions_file(tmp_path))
    found = json.loads(jpr("validate", run_file(tmp_path, "run.jsonl", ["red", "blue"]), "--json"))
    assert (found["kind"], found["format"], found["rankings"], found["passages"]) == (
        "rankings",
        "ctxs",
        1,
        2,
    )


def test_validate_names_the_bad_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = questions_file(tmp_path)
    path.write_text(path.read_text() + '{"id": "c", "question": 3, "answers": []}\n')
    said = fails(capsys, monkeypatch, "validate", path)
    assert "questions.jsonl:3: (read as jpr, questions)" in said


def test_convert_a_trec_run_into_texts_and_back(tmp_path: Path) -> None:
    (tmp_path / "run.trec").write_text("a Q0 7 1 2.5 x\na Q0 8 2 1.5 x\n")
    (tmp_path / "corpus.tsv").write_text("7\tred and more\tR\n8\tblue and more\tB\n")
    jpr("convert", tmp_path / "run.trec", tmp_path / "run.jsonl.gz", "--to", "ctxs",
        "--corpus", tmp_path / "corpus.tsv", "--questions", questions_file(tmp_path))  # fmt: skip
    jpr("convert", tmp_path / "run.jsonl.gz", tmp_path / "again.tsv", "--to", "tsv")
    assert (tmp_path / "again.tsv").read_text() == (tmp_path / "corpus.tsv").read_text()
    jpr("convert", tmp_path / "run.jsonl.gz", tmp_path / "questions2.jsonl", "--to", "jpr")
    assert [
        json.loads(line)["id"] for line in (tmp_path / "questions2.jsonl").read_text().splitlines()
    ] == ["a", "b"]


def test_convert_judgements(tmp_path: Path) -> None:
    (tmp_path / "a.qrels").write_text("q 1 d 1\n")
    jpr("convert", tmp_path / "a.qrels", tmp_path / "b.qrels", "--to", "qrels")
    assert (tmp_path / "b.qrels").read_text() == "q 1 d 1\n"


def test_convert_splits_articles(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "long.txt").write_text("one two three four five")
    jpr("convert", tmp_path / "docs", tmp_path / "out.jsonl", "--to", "beir", "--split", "words:2")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == ["one two", "three four", "five"]


def test_format_names_are_unique() -> None:
    names = [format.name for format in all_formats()]
    assert len(set(names)) == len(names)
    assert all(name in jpr("validate") for name in names)
    assert len(json.loads(jpr("validate", "--json"))["formats"]) == len(names)


def commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def test_there_are_few_commands_and_options() -> None:
    assert len(commands()) <= 13
    options = [
        (name, parameter.opts)
        for name, command in commands().items()
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.name != "help"
    ]
    assert len(options) <= 90


def test_every_command_has_a_summary_panels_and_an_example() -> None:
    problems = []
    for name, command in commands().items():
        shown = jpr(name, "--help")
        summary = command.help.partition("\n\n")[0]
        if "\n" in summary or not summary.endswith((".", "?")):
            problems.append(f"{name}: {summary}")
        if f"Example: jpr {name}" not in shown.rpartition("╯")[2]:
            problems.append(f"{name}: has no example at the end")
        problems += [
            f"{name} {one.name}: is in no panel"
            for one in command.params
            if one.param_type_name == "option" and not one.rich_help_panel
        ]
    assert problems == []


def test_start_up_loads_nothing_heavy() -> None:
    heavy = {"numpy", "torch", "onnxruntime", "tokenizers", "regex", "distributed", "dask"}
    for code in ("import jpr.cli", "import jpr.cli; jpr.cli._exit_code(['--help'])"):
        script = f"import sys; {code}; sys.stderr.write(' '.join(sys.modules))"
        loaded = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        assert not heavy & set(loaded.stderr.split())


def test_from_a_corpus_to_a_scored_run(tmp_path: Path) -> None:
    (tmp_path / "corpus.tsv").write_text(
        "1\tred paint dries first\tPaint\n2\tblue was second?\tPaint\n3\tnothing here\tOther\n"
    )
    jpr("index", tmp_path / "corpus.tsv", "--out", tmp_path / "index")
    found = json.loads(jpr("retrieve", tmp_path / "index", "first paint", "-k", 5, "--json"))
    assert found["question"] == "first paint"
    assert [hit["id"] for hit in found["hits"]] == ["1", "2", "3"]  # by words and vectors
    words = jpr("retrieve", tmp_path / "index", "first paint", "--retriever", "bm25", "--json")
    assert [hit["id"] for hit in json.loads(words)["hits"]] == ["1", "2"]
    assert set(found["hits"][0]) == {"id", "title", "text", "score"}
    assert "Paint  [1]" in jpr("retrieve", tmp_path / "index", "first")
    questions, run = questions_file(tmp_path), tmp_path / "run.jsonl"
    jpr("retrieve", tmp_path / "index", "-q", questions, "-o", run, "-k", 2)
    out = json.loads(jpr("evaluate", run, "-q", questions, "-m", "Recall@2", "--json"))
    assert out["runs"][0]["measures"]["Recall@2"]["all"] == 50
