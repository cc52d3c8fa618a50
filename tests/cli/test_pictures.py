"""The pictures that `jpr evaluate --plots` draws."""

from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tests.cli.running import jpr, questions_file, run_file


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    monkeypatch.setattr(
        "jpr.evaluation.plots._save", lambda figure, path: figures.update({path.stem: figure})
    )
    return figures


def labels(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_legends_name_runs_shortly_and_stay_bundled(
    tmp_path: Path, drawn: dict[str, Figure]
) -> None:
    names = ["_first", "a$b$", "x" * 120, *(f"run-number-{i}" for i in range(7))]
    runs = [run_file(tmp_path, f"{name}.jsonl", ["red"]) for name in names]
    jpr("evaluate", *runs, "-q", questions_file(tmp_path), "--plots", tmp_path / "plots")
    shown = [*names, "questions"]
    shown[:3] = [" _first", r"a\$b\$", "…" + "x" * 64]
    assert labels(drawn["by-answers"]) == shown
    assert labels(drawn["curve"])[:10] == shown[:10]
    for figure in drawn.values():
        figure.set_canvas(FigureCanvasAgg(figure))
        figure.draw_without_rendering()
        (legend,) = figure.legends
        box, whole = legend.get_window_extent(), figure.bbox
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1
        assert whole.y0 <= box.y0 < box.y1 <= whole.y1


def test_the_first_mrecall_is_drawn_by_answers(drawn: dict[str, Figure]) -> None:
    jpr("evaluate", "--example", "-m", "Recall@5", "-m", "MRecall@3", "--plots", "unused")
    assert drawn["by-answers"].axes[0].get_ylabel() == "MRecall@3 (%)"
    jpr("evaluate", "--example", "-m", "Recall@5", "--plots", "unused")
    assert drawn["by-answers"].axes[0].get_ylabel() == "MRecall@1 (%)"


def test_without_mrecall_there_is_no_curve(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("a 1 red 1\na 2 blue 1\n")
    run = run_file(tmp_path, "run.jsonl", ["red", "grey"])
    jpr("evaluate", run, "--qrels", tmp_path / "qrels", "--plots", tmp_path / "plots")
    assert [path.name for path in (tmp_path / "plots").iterdir()] == ["by-answers.svg"]


def test_runs_of_one_name_are_reported_apart_by_their_folders(
    tmp_path: Path, drawn: dict[str, Figure]
) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    runs = [run_file(tmp_path / folder, "dev.jsonl", ["red"]) for folder in ("one", "two")]
    printed = jpr("evaluate", *runs, "-q", questions_file(tmp_path), "--plots", "unused")
    assert {line.split()[0] for line in printed.splitlines()[1:9]} == {
        "one/dev.jsonl",
        "two/dev.jsonl",
    }
