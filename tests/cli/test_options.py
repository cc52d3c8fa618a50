"""Options that do not go together are refused; nothing that was asked for is silently left out."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import jpr.formats.corpus
from jpr.cli import app
from jpr.types import Passage
from tests.cli.running import fails, questions_file, run_file
from tests.cli.running import jpr as run_jpr


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.chdir(tmp_path)
    twice = '{"id": "7", "title": "", "text": "red", "score": 1}'
    texts = {
        "answers": '{"id": "a", "answers": ["Red"]}\n{"id": "b", "answers": ["green"]}\n',
        "others": '{"id": "a", "answers": ["grey"]}\n{"id": "zz", "answers": ["grey"]}\n',
        "twice": f'{{"id": "a", "question": "first?", "ctxs": [{twice}, {twice}]}}\n',
        "again": '{"id": "a", "question": "first?", "ctxs": []}\n'
        '{"id": "x", "question": "zz?", "ctxs": []}\n',
        "elsewhere": '{"id": "x", "question": "other?", "ctxs": []}\n',
        "trec": "a Q0 7 1 2.5 x\nzz Q0 8 2 1.5 x\n",
        "ids": "a Q0 9 1 2.5 x\n",
        "corpus": "7\tred and blue\tTitle\n8\tgrey\tTitle\n",
        "expression": '{"id": "t", "question": "What?", "answers": [], "regex": "(x"}\n',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    run_file(tmp_path, "run", ["red"])
    questions_file(tmp_path).rename(tmp_path / "questions")
    return {path.name: path for path in tmp_path.iterdir()}


ANSWERS = ["evaluate", "--answers", "answers", "-q", "questions"]
EVALUATE = ["evaluate", "-q", "questions"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([*ANSWERS, "run"], "runs: "),
        ([*ANSWERS, "--qrels", "x", "--corpus", "y"], "--corpus, --qrels: "),
        ([*ANSWERS, "--pool", "run", "--strict"], "--pool, --strict: "),
        ([*ANSWERS, "--plots", "pictures"], "--plots: "),
        ([*ANSWERS, "-m", "MRecall@5"], "'MRecall@5' does not score answers; choose AnswerF1 or"),
        ([*EVALUATE, "run", "-m", "EM"], "EM scores answers; give them with --answers"),
        (["evaluate", "--example", "run"], "runs: --example"),
        ([*EVALUATE, "run", "twice"], "jpr: twice: question 'a': passage '7' comes 2 times"),
        (["validate", "twice"], "jpr: twice: question 'a': passage '7' comes 2 times"),
        ([*EVALUATE, "run", "elsewhere"], "jpr: elsewhere: no ranking belongs to any question"),
        ([*EVALUATE, "run", "--pool", "elsewhere"], "jpr: elsewhere: no ranking belongs"),
        ([*EVALUATE, "trec", "ids", "--corpus", "corpus"], "jpr: ids: 1 of 1 passages of the run"),
        ([*EVALUATE, "--answers", "others", "--baseline", "run"], "run: is a file of rankings"),
        ([*EVALUATE, "questions"], "jpr convert FILE OUT --from NAME --to NAME"),
        (["index", "questions", "--out", "index"], "questions: is a file of questions"),
        (["evaluate", "run", "-q", "corpus"], "corpus: is a file of passages"),
        (["index", "--remove", "1", "--out", "index"], "index: no index"),
        (["index", "corpus", "--out", "run"], "run: is a file"),
        (["retrieve", "run", "who?"], "run: is a file"),
        ([*EVALUATE, "--answers", "questions"], "docs/formats.md"),
        (["validate", "expression"], "jpr: expression: question 't': '(x' is not a regular"),
        (["convert", "trec", "out", "--to", "tsv"], "jpr: trec: the run holds only ids; give the"),
        (["convert", "trec", "out", "--to", "jpr"], "give the questions with --questions"),
        (["convert", "run", "out", "--to", "rankings:trec"], "cannot be written"),
        (["convert", "run", "run", "--to", "trec"], "run is also"),
        (["convert", "ids", "corpus", "--to", "ctxs", "--corpus", "corpus"], "corpus is also"),
        (["rerank", "run", "--out", "new", "--trees", "run"], "run is also"),
        (["rerank", "run", "--out", "new", "--trees", "new"], "new is also"),
        (["rerank", "run", "--out", "new", "--set", "help"], "known: decoder, beta"),
        (["evaluate", "run", "--nonsense"], "No such option: --nonsense"),
        (["evaluat"], "No such command 'evaluat'"),
        (["convert", "run"], "; see jpr convert --help"),
    ],
)
def test_what_has_no_meaning_is_refused_in_one_sentence(
    files: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    says: str,
) -> None:
    before = {name: path.read_bytes() for name, path in files.items()}
    assert says in fails(capsys, monkeypatch, *arguments)
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_answers_take_measures_and_a_baseline(files: dict[str, Path]) -> None:
    arguments = [*ANSWERS, "--baseline", "others", "-m", "EM", "--json"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    found = json.loads(result.stdout)
    assert [(run["run"], run["measures"]["EM"]["all"]) for run in found["runs"]] == [
        ("answers", 100),
        ("others", 0),
    ]
    assert {comparison["measure"] for comparison in found["comparisons"]} == {"EM"}
    assert "others: 1 answers are for other questions" in result.stderr
    assert "rankings" not in result.stderr


def test_a_conversion_says_what_it_leaves_out(files: dict[str, Path]) -> None:
    arguments = ["convert", "again", "out.jsonl", "--to", "ctxs", "--questions", "questions"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "left out 1 ranking for other questions" in result.stderr
    assert "1 question without a ranking" in result.stderr


def test_the_corpus_is_read_once_for_all_runs(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = jpr.formats.corpus.read_passages
    times = []

    def counting(path: Path) -> Iterator[Passage]:
        times.append(path)
        return read(path)

    monkeypatch.setattr("jpr.cli.files.read_passages", counting)
    Path("copy").write_bytes(Path("trec").read_bytes())
    options = ["--corpus", "corpus", "-m", "MRecall@2", "--json"]
    out = run_jpr(*EVALUATE, "trec", "copy", "--pool", "trec", *options)
    assert [run["measures"]["MRecall@2"]["multi"] for run in json.loads(out)["runs"]] == [100, 100]
    assert len(times) == 1


def test_measures_of_the_curve_are_compared_with_nothing(tmp_path: Path) -> None:
    arguments = ["evaluate", "--example", "--json"]  # among its p values are some below 1
    assert run_jpr(*arguments) == run_jpr(*arguments, "--plots", tmp_path)


def test_an_unwritable_cache_is_a_note(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JPR_CACHE", str(files["run"]))  # a file, no folder
    result = CliRunner().invoke(app, [*EVALUATE, "run"], catch_exceptions=False)
    assert result.exit_code == 0
    assert "not cached" in result.stderr


def test_equal_scores_are_reported_without_advice_that_a_trec_run_cannot_follow(
    files: dict[str, Path],
) -> None:
    Path("flat").write_text("a Q0 7 1 1 x\na Q0 8 2 1 x\n")
    result = CliRunner().invoke(app, [*EVALUATE, "flat", "--corpus", "corpus"])
    assert "mostly equal scores" in result.stderr
    assert "leave the scores out" not in result.stderr


def test_help_and_version() -> None:
    assert "..." not in run_jpr("--help").partition("Commands:")[2]  # whole on 80 columns
    shown = run_jpr("evaluate", "--help")
    assert "--no-strict" not in shown
    assert re.search(r"--strict  +Do not", shown)
    assert " [RUN]...\n" in re.sub(" +\n", "\n", shown)
    assert "Do not count a lone numeral" in shown
    assert run_jpr("--version") == f"jpr {jpr.__version__}\n"


def test_runs_are_not_committed_but_the_package_is() -> None:
    ignored = (Path(__file__).parents[2] / ".gitignore").read_text().splitlines()
    assert "/runs/" in ignored
    assert "runs/" not in ignored
