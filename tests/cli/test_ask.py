"""`jpr ask`, from the folder of documents to the screen, with the bundled models."""

import io
import json
import sys
from dataclasses import replace
from math import log
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Span

from jpr.bundled import ask
from jpr.cli import main, output, render
from jpr.types import Answer, ExpectedAnswer, Reply
from tests.cli.running import fails, jpr
from tests.formats.corpus.document_samples import pdf, with_password

QUESTION = "who won the cup"
TEXTS = {
    "yokohama.txt": "Brazil won the cup in 2002, in Yokohama.",
    "brazil.md": "# Brazil\nBrazil won the cup in 1994 after penalties, and again in 2002.",
    "berlin.html": "<title>Berlin</title><p>In 2006 <b>Italy</b> won the cup in Berlin.",
    "rivers.csv": "river,sea\nDanube,Black Sea\nRhine,North Sea\n",
}


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "gin.pdf").write_bytes(pdf("Nothing here.", "Eli Whitney made the cotton gin."))
    return folder


@pytest.fixture(scope="module")
def reply(docs: Path, tmp_path_factory: pytest.TempPathFactory) -> Reply:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JPR_CACHE", str(tmp_path_factory.mktemp("cache")))
        return ask(QUESTION, docs=docs, k=3)


def test_answers_passages_and_the_tree_are_printed(docs: Path) -> None:
    shown = jpr("ask", QUESTION, "--docs", docs, "-k", 3, "--explain", "--compare")
    question, first, second, meaning, blank, *rest = shown.splitlines()
    assert (question, blank) == (QUESTION, "")
    assert "all 7 candidates" in meaning
    assert sorted([first.split("  ")[1], second.split("  ")[1]]) == ["Brazil", "Italy"]
    assert "[1] " in rest[0]
    assert "    In 2006 **Italy** won the cup in Berlin.\n    adds Italy\n" in shown
    assert "repeats Brazil" in shown
    assert "jointly: 2 answers" in shown
    assert "  └── [1] " in shown
    assert "Search over 7 candidates (seq)" in shown
    assert "\x1b" not in shown
    assert all(line == line.rstrip() for line in shown.splitlines())


def test_all_percentages_are_of_one_kind_and_none_of_the_unlisted_exceeds_the_listed(
    reply: Reply,
) -> None:
    """What is sure to come next, since all else was found, is still an unlikely answer."""
    places = [i for i, node in enumerate(reply.nodes) if node.is_new]
    expected = (
        ExpectedAnswer("James Collip", 0.99, 0.07, ()),
        ExpectedAnswer("Collip", 0.9, 0.06, ()),  # the same once more
        ExpectedAnswer("in Brazil", 0.9, 0.5, ()),  # contains an answer that is listed
        ExpectedAnswer("Berlin", 0.3, 0.002, ()),
        ExpectedAnswer("Rome", 0.01, 0.01, ()),  # nobody expected it
    )
    answers = (Answer("Brazil", log(0.8), ()),)
    nodes = list(reply.nodes)
    nodes[places[1]] = replace(nodes[places[1]], expected=expected)
    made = replace(reply, answers=answers, nodes=tuple(nodes))
    assert render._adds(made, 1).plain == "may add James Collip (7%) or Berlin (<1%)"
    assert render._cell(made, 1).plain.endswith("  ? James Collip")
    console = Console(width=200)
    with console.capture() as captured:
        for part in render.reply_parts(made, None, explain=True):
            console.print(part)
    shown = captured.get()
    assert "all 7 candidates" in shown
    assert "%" not in shown.partition("Search over")[2]


def test_a_long_list_folds_after_ten_and_no_answer_is_said(reply: Reply) -> None:
    def shown(answers: tuple[Answer, ...]) -> str:
        console = Console(width=200)
        with console.capture() as captured:
            for part in render.reply_parts(replace(reply, answers=answers), None, explain=False):
                console.print(part)
        return captured.get()

    many = tuple(Answer(f"player {at}", log(0.8), ()) for at in range(12))
    assert shown(many).count("80%") == 10
    assert "2 more answers" in shown(many)
    assert "more answer" not in shown(many[:10])
    assert "No answer found" in shown(())


def test_json_says_all_of_it(docs: Path) -> None:
    reply = json.loads(jpr("ask", QUESTION, "--docs", docs, "-k", 2, "--json", "--beta", 0.5))
    assert list(reply) == ["question", "answers", "passages", "tree"]
    assert sorted(answer["text"] for answer in reply["answers"]) == ["Brazil", "Italy"]
    assert [len(passage["adds"]) for passage in reply["passages"]] == [1, 1]
    assert (reply["tree"]["decoder"], reply["tree"]["beta"]) == ("tree", 0.5)
    assert {passage["meta"]["file"] for passage in reply["passages"]} <= set(TEXTS)
    both = json.loads(jpr("ask", QUESTION, "--docs", docs, "-k", 2, "--json", "--compare"))
    assert list(both["independent"]) == ["answers", "passages"]
    assert len(both["independent"]["passages"]) == 2


def test_a_page_is_named(docs: Path) -> None:
    shown = jpr("ask", "who made the cotton gin", "--docs", docs, "-k", 1)
    assert shown.splitlines()[1].split("  ")[1] == "Eli Whitney"
    assert "gin.pdf, page 2" in shown


def test_documents_are_kept_up_with(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    file = folder / "cup.txt"
    file.write_text("Brazil won the cup in 2002.", encoding="utf-8")
    first = jpr("ask", QUESTION, "--docs", folder, "--json")
    assert jpr("ask", QUESTION, "--docs", folder, "--json") == first
    file.write_text("Italy won the cup in 2006.", encoding="utf-8")
    second = jpr("ask", QUESTION, "--docs", folder, "--json")
    found = [json.loads(reply)["answers"][0]["text"] for reply in (first, second)]
    assert found == ["Brazil", "Italy"]


def test_an_index_is_asked(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text(
        "1\tThe Danube flows into the Black Sea.\tDanube\n2\tBees make honey.\tBees\n",
        encoding="utf-8",
    )
    jpr("index", corpus, "--out", tmp_path / "index", "--encoder", "none")
    shown = jpr("ask", "where does the danube flow", "--index", tmp_path / "index")
    assert "**Black Sea**" in shown
    assert "  1\n" in shown  # the passage's id


def test_a_file_that_cannot_be_read_is_noted_and_the_rest_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good.txt").write_text(TEXTS["yokohama.txt"], encoding="utf-8")
    (tmp_path / "locked.pdf").write_bytes(with_password(pdf("Secret.")))
    monkeypatch.setattr(sys, "argv", ["jpr", "ask", QUESTION, "--docs", str(tmp_path)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    said = capsys.readouterr()
    assert "**Brazil**" in said.out
    assert said.err.count("\n") == 1
    assert "locked.pdf: is encrypted; save it without a password; left out" in said.err


def test_a_question_without_answer_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("zzz", encoding="utf-8")
    reply = json.loads(jpr("ask", "qqq ?", "--docs", tmp_path, "--json"))
    assert len(reply["passages"]) == 1


def test_mistakes_are_reported(
    docs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def said(*arguments: object) -> str:
        return fails(capsys, monkeypatch, "ask", *arguments)

    assert "the question is empty" in said(" ")
    assert "exclude each other" in said("why?", "--docs", docs, "--index", docs)
    assert "does not exist" in said("why?", "--docs", tmp_path / "nowhere")
    assert "is not a folder" in said("why?", "--docs", docs / "yokohama.txt")
    (tmp_path / "picture.jpg").write_bytes(b"x")
    assert "holds no readable document" in said("why?", "--docs", tmp_path)
    assert "jpr index CORPUS" in said("why?", "--index", tmp_path)
    assert "-k 0" in said("why?", "-k", 0)
    assert "--decode bush" in said("why?", "--decode", "bush")
    assert "--decode seq" in said("why?", "--decode", "seq", "--beta", 1)
    assert "--beta nan" in said("why?", "--beta", "nan")
    assert "see jpr ask --help" in said()


class Terminal(io.StringIO):
    """What looks like a screen."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_has_colours_and_its_width(
    reply: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    for name, value in {"TERM": "xterm", "COLUMNS": "50"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = output.rendered(render.reply_parts(reply, reply, explain=True))
    assert "\x1b[1;32m" in shown
    assert "**" not in shown
    assert "adds" in shown


def test_what_stands_around_answers_is_shown_in_whole_words() -> None:
    text = " ".join(["word"] * 100)
    mark = Span(200, 204, "bold")
    assert render._windows(text, []) == [(0, 279)]
    assert render._windows(text, [mark]) == [(65, 339)]
    assert render._windows(text, [mark, mark._replace(start=400, end=404)]) == [(65, 499)]
    assert render._excerpt("short text", []).plain == "short text"
    shown = render._excerpt(text, [mark]).plain
    assert shown.startswith("… word word")
    assert shown.endswith("word word …")
    long = "x" * 1000
    assert render._windows(long, [mark]) == [(200, 204)]


def test_of_overlapping_answers_the_first_is_marked() -> None:
    marks = [Span(0, 9, "bold"), Span(4, 16, "bold"), Span(10, 16, "underline")]
    marked = render._marked("old stone castle\x1b[2J", (0, 20), marks)
    assert marked.plain == "**old stone** *castle*[2J"
