"""Output as terminals, pipes, full disks and other encodings take it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jpr.cli import main, output
from jpr.evaluation import tables
from tests.cli.running import EXAMPLE, jpr


def shell(command: str, **environment: str) -> tuple[int, str, str]:
    """Run a command line in which `jpr` is ours."""
    script = f'set -o pipefail; jpr() {{ "{sys.executable}" -m jpr "$@"; }}; {command}'
    settings = "".join(f"export {name}={value}; " for name, value in environment.items())
    done = subprocess.run(["bash", "-c", settings + script], capture_output=True, check=False)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode()


def many_questions(folder: Path) -> str:
    """Return arguments whose details are longer than what a pipe holds."""
    ids = range(1500)
    questions = [{"id": str(i), "question": "?" * 100, "answers": [["red"]]} for i in ids]
    for name, text in (("good", "red"), ("poor", "grey")):
        ctxs = [{"id": text, "title": "", "text": text, "score": 1}]
        runs = [{"id": str(i), "question": "", "ctxs": ctxs} for i in ids]
        (folder / name).write_text("".join(json.dumps(run) + "\n" for run in runs))
    (folder / "questions").write_text("".join(json.dumps(q) + "\n" for q in questions))
    good, poor, asked = folder / "good", folder / "poor", folder / "questions"
    return f"evaluate {good} --baseline {poor} -q {asked} -m Recall@1"


@pytest.mark.parametrize("command", ["--help", "validate", "{evaluation}", "convert {good} {out}"])
def test_a_reader_who_has_seen_enough_is_no_error(tmp_path: Path, command: str) -> None:
    evaluation = many_questions(tmp_path)
    out = "/dev/fd/1 --to ctxs"  # not /dev/stdout: what goes wrong would replace it
    filled = command.format(evaluation=evaluation, good=tmp_path / "good", out=out)
    code, _, said = shell(f"jpr {filled} | head -1")
    assert (code, said) == (0, "")


@pytest.mark.parametrize("command", ["--help", "validate", "evaluate --example --json"])
def test_output_that_cannot_be_written_is_one_sentence(command: str) -> None:
    code, _, said = shell(f"jpr {command} > /dev/full")
    assert (code, said) == (2, "jpr: cannot write the output: No space left on device\n")
    code, _, said = shell(f"jpr {command} >&-")
    assert (code, said) == (2, "jpr: cannot write the output: Bad file descriptor\n")
    assert shell(f"jpr {command} 2>&-")[0] == 0


def test_a_conversion_needs_no_standard_output(tmp_path: Path) -> None:
    source, target = EXAMPLE / "joint.jsonl", tmp_path / "run.trec"
    assert shell(f"jpr convert {source} {target} --to trec >&-") == (0, "", "")
    assert target.read_text().count(" Q0 ") > 10


def test_a_conversion_may_go_to_standard_output(tmp_path: Path) -> None:
    command = f"jpr convert {EXAMPLE / 'joint.jsonl'} /dev/fd/1 --to trec"
    _, piped, _ = shell(f"{command} | cat")
    code, _, said = shell(f"(echo first; {command}) > {tmp_path / 'out'}")
    assert (code, said) == (0, "")
    assert piped.count(" Q0 ") > 10
    assert (tmp_path / "out").read_text() == "first\n" + piped


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_no_encoding_stops_the_output(encoding: str) -> None:
    assert shell("jpr evaluate --help", PYTHONIOENCODING=encoding)[0] == 0
    code, printed, said = shell("jpr evaluate --example", PYTHONIOENCODING="ascii")
    assert (code, said) == (0, "")
    assert r"joint \u2013 independent" in printed


def test_half_a_surrogate_pair_can_be_shown(tmp_path: Path) -> None:
    (tmp_path / "q").write_text(r'{"id": "é", "question": "\ud800?", "answers": [["red"]]}')
    run = r'{"id": "é", "question": "", "ctxs": [{"id": "1", "text": "red \ud800"}]}'
    (tmp_path / "good").write_text(run)
    (tmp_path / "poor").write_text(run.replace("red", "grey").replace("1", "2"))
    good, poor, asked = tmp_path / "good", tmp_path / "poor", tmp_path / "q"
    command = f"jpr evaluate {good} --baseline {poor} -q {asked}"
    code, printed, said = shell(f"{command} --json", PYTHONIOENCODING="utf-8")
    assert (code, said) == (0, "")
    assert json.loads(printed)["comparisons"][0]["wins"] == ["é"]
    _, printed, _ = shell(f"{command} --json", PYTHONIOENCODING="ascii")
    assert json.loads(printed)["comparisons"][0]["wins"] == ["é"]


def test_names_of_runs_are_no_markup(tmp_path: Path) -> None:
    copies = [tmp_path / "r[red]x.jsonl", tmp_path / "[" / "red]d.jsonl"]
    for copy in copies:
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes((EXAMPLE / "joint.jsonl").read_bytes())
    printed = jpr("evaluate", *copies, "-q", EXAMPLE / "questions.jsonl", "-m", "MRecall@5")
    assert [line.split()[0] for line in printed.splitlines()[1:3]] == ["r[red]x", "red]d"]
    output.table(("run", "all"), [("d[/red]", "1")])


@pytest.mark.parametrize("columns", [60, 80, 110, 120])
def test_a_narrow_terminal_shows_every_number_in_full(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    row = (
        "a run with a long name – another one", "alpha_nDCG(0.9)@10", "multi", "1,172", "+24.1",
        "-11.1 to +77.8", "104", "113", "<0.0001", "<0.0001",
    )  # fmt: skip
    printed = re.sub("\x1b.*?m", "", output.table(tables.COMPARED, [row]))
    assert all(cell in printed for cell in row[1:])
    assert "…" not in printed
    lines = printed.splitlines()
    assert columns < 100 or max(len(line.rstrip()) for line in lines) <= columns
    assert (len(lines) > 2) == (columns >= 100)  # folded only where that makes it fit


def test_a_wait_is_shown_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with output.spinner("choosing"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with output.spinner("choosing"):
        pass
    assert "choosing" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["convert run out.trec --to trec", "validate run"])
def test_an_error_comes_after_the_progress_bar_is_gone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    ctxs = [{"id": id, "text": id, "score": score} for id, score in (("a b", 2), ("a b", 1))]
    records = [{"id": "1", "question": "who?", "answers": [["x"]], "ctxs": ctxs}]
    (tmp_path / "run").write_text(json.dumps(records), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "argv", ["jpr", *command.split()])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with pytest.raises(SystemExit):
        main()
    shown, _, after = capsys.readouterr().err.rpartition("jpr: ")
    assert "ing" in shown  # "reading" or "writing"
    assert re.fullmatch(r"[^\x1b\n]*\n", after)
