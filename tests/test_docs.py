"""Documents that cannot rot: what they name is there, what they show is so.

A block of docs/formats.md that begins with "```LANGUAGE FORMAT" is a file of that format, called
as `file=` says; "Read as `{…}`" below it gives fields of its first record.
"""

import doctest
import io
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pytest

from jpr.cli import app
from jpr.cli.files import all_formats
from jpr.evaluation.measures import MEASURES
from jpr.formats.format import detect

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
}
FORMATS = {format.name: kind for format, kind in all_formats().items()}
BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
READ_AS = re.compile(r"\s*Read as `(\{.*?\})`", re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
MACHINE = re.compile(rb"(?<![\w.~-])/(work|root|tmp|home)/")


def blocks(page: str) -> Iterator[tuple[list[str], str, str]]:
    """Yield what a block's first line says, its text and the page after it."""
    for block in BLOCK.finditer(PAGES[page]):
        yield block["info"].split(), block["text"], PAGES[page][block.end() :]


SAMPLES = [block for block in blocks("docs/formats.md") if len(block[0]) > 1]
PYTHON = {page: [text for info, text, _ in blocks(page) if info == ["python"]] for page in PAGES}


def _read(fields: list[tuple[str, object]]) -> dict[str, object]:
    """Leave out what no file has: only a pipeline gives a passage a context."""
    return {name: value for name, value in fields if name != "context"}


def test_every_sample_is_read_as_the_page_says(tmp_path: Path) -> None:
    wrong = []
    for number, (info, text, after) in enumerate(SAMPLES):
        name, file = info[1], "".join(info[2:]).removeprefix("file=") or "sample"
        folder = tmp_path / str(number)
        (folder / file).parent.mkdir(parents=True)
        (folder / file).write_text(text, encoding="utf-8")
        path = folder / Path(file).parts[0]  # the folder, where there is one
        shown = READ_AS.match(after)
        said = json.loads(shown[1]) if shown else "the page does not say"
        found = detect(path, all_formats())
        records = FORMATS[name].read(path, name)
        first, *_ = [json.loads(json.dumps(asdict(r, dict_factory=_read))) for r in records]
        read = {key: first[key] for key in said} if shown else first
        if read != said or not name.startswith(found.name):  # asqa-dev is asqa until it is named
            wrong.append(f"{name}, recognised as {found.name}: {said}, but read {read}")
    assert wrong == []


def test_every_format_has_its_name_and_a_sample() -> None:
    page = PAGES["docs/formats.md"]
    assert [name for name in FORMATS if f"`{name}`" not in page] == []
    assert set(FORMATS) - {info[1] for info, _, _ in SAMPLES} == set()


def test_every_measure_is_explained() -> None:
    names = re.findall(r"^\| `(\w+)", PAGES["docs/measures.md"], re.MULTILINE)
    assert {*MEASURES, "AnswerF1", "EM"} <= set(names)


def test_every_command_is_mentioned() -> None:
    users = "\n".join(text for page, text in PAGES.items() if page == "README.md" or "/" in page)
    commands = [command.name for command in app.registered_commands]
    assert [name for name in commands if not re.search(rf"\bjpr {name}\b", users)] == []


@pytest.mark.parametrize("page", [page for page, found in PYTHON.items() if found])
def test_python_prints_what_the_page_shows(page: str) -> None:
    for number, code in enumerate(PYTHON[page]):
        where = f"{page}, Python block {number + 1}"
        if code.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(code, {}, where, None, None)
            assert doctest.DocTestRunner().run(test).failed == 0, where
            continue
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, where, "exec"), {"__name__": "block"})
        shown = re.search(r"(^# .*\n)*\Z", code, re.MULTILINE)
        assert shown
        assert printed.getvalue() == re.sub("^# ", "", shown[0], flags=re.MULTILINE), where


@cache
def anchors(page: str) -> set[str]:
    """Return the names GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", PAGES[page]), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_dead(page: str, link: str) -> bool:
    if "://" in link or link.startswith("mailto:"):
        return False
    file, _, anchor = link.partition("#")
    target = ((ROOT / page).parent / file).resolve() if file else ROOT / page
    if not target.exists():
        return True
    return bool(anchor) and anchor not in anchors(target.relative_to(ROOT).as_posix())


def test_every_link_leads_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in LINK.findall(BLOCK.sub("", PAGES[page]))]
    assert [f"{page}: {link}" for page, link in links if is_dead(page, link)] == []


def test_the_test_command_is_what_ci_runs() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    taken = re.search(r"^command=\$\((awk .* README\.md)\)$", script, re.MULTILINE)
    assert taken
    assert 'bash -euo pipefail -c "$command"\n' in script
    command = subprocess.run(
        ["bash", "-c", taken[1]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"python3 -m venv .* && .*/python -m tests\n", command.stdout)
    below = PAGES["README.md"].partition("<!-- the test command -->\n")[2]
    assert below.startswith(f"```bash\n{command.stdout}```\n")


def test_no_file_names_a_place_on_some_machine() -> None:
    tops = [top for top in ROOT.iterdir() if top.name in (".ci", ".github") or top.name[0] != "."]
    kept = [top for top in tops if top.name not in ("tests", "build", "dist", "site")]
    files = [file for top in kept for file in ([top] if top.is_file() else top.rglob("*"))]
    texts = [file for file in files if file.is_file() and file.parent.name != "__pycache__"]
    assert [str(file) for file in texts if MACHINE.search(file.read_bytes())] == []


def test_nothing_is_left_to_be_filled_in() -> None:
    left = {page: re.findall(r"@[A-Z0-9]+@|TODO|TBD", text) for page, text in PAGES.items()}
    assert not {page: found for page, found in left.items() if found}
