"""The field's words: code and documents are free of a dialect that only this project spoke.

CHANGELOG.md says what names have become, and is left out; so are the names that files of version
0.1 have on disk (`ON_DISK`).
"""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = (
    "jpr",
    "docs",
    "recipes",
    "tests",
    "benchmarks",
    "README.md",
    "DESIGN.md",
    "CONTRIBUTING.md",
)
KINDS = {".py", ".md", ".js", ".html", ".css", ".toml", ".sh"}
PREFER = {
    r"told": "message, report",
    r"tells?|telling": "prints, returns, says",
    r"(models?|encoders?|readers?|encyclopedia) inside": "bundled",
    r"strangers?": "random negatives",
    r"best order": "oracle (ordering)",
    r"goes on|go on": "resumes, continues",
    r"sent away|sends? away|comes? again": "rejected with 429 and Retry-After",
    r"without a word": "no output",
    r"anew": "again, from scratch",
    r"one by one": "independently, pointwise",
    r"so many": "a number, n",
    r"such as are|what is there|(is|are) there already": "what exists, existing",
    r"comes? along|came along": "bundled, included",
    r"wanted|Wanted": "requested, Options",
    r"Considered": "EncodedCandidates",
    r"Asked": "ModelInput",
    r"Listed": "CandidateBatch",
    r"Draws": "Sampler",
    r"Feed|FeedConfig": "Dataset",
    r"Rooms?|rooms": "DecoderCache",
    r"Door|Gate": "AccessPolicy",
    r"Told": "Report",
    r"[Pp]atience|Patient\w*": "deadline",
    r"jpr[./]\w+[./](recorded|drawn|bring|draft)": "cuda_graph, render, custom, version_writer",
}
ON_DISK = {"jpr/train/recipe.py", "tests/train/test_recipe.py"}
DIALECT = re.compile("|".join(rf"(?P<w{at}>\b({one})\b)" for at, one in enumerate(PREFER)))


def texts() -> Iterator[Path]:
    """Yield the files in which words are looked for."""
    for place in PLACES:
        top = ROOT / place
        found = [top] if top.is_file() else sorted(top.rglob("*"))
        kept = (file for file in found if file.suffix in KINDS and "assets" not in file.parts)
        exempt = {ROOT / name for name in ON_DISK} | {Path(__file__).resolve()}
        yield from (file for file in kept if file not in exempt)


def dialect(line: str) -> Iterator[tuple[str, str]]:
    """Yield each word of the dialect in a line, with what to write instead."""
    for match in DIALECT.finditer(line):
        place = next(name for name, value in match.groupdict().items() if value is not None)
        yield match[0], list(PREFER.values())[int(place[1:])]


def test_no_word_of_the_dialect_is_left() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {word!r}, write: {instead}"
        for file in texts()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        for word, instead in dialect(line)
    ]
    assert not found, "\n".join(found)


def test_a_word_of_the_dialect_would_be_seen() -> None:
    assert list(dialect("It is told by the models inside.")) == [
        ("told", "message, report"),
        ("models inside", "bundled"),
    ]
    assert list(dialect("class Considered: ...")) == [("Considered", "EncodedCandidates")]
    assert list(dialect("A reader is bundled; retold stories are considered.")) == []
