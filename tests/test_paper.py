"""docs/paper.md: all of the paper is there, and every file and name it points at."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`((?:jpr|recipes|tests|results|benchmarks)/[\w./-]*)(?:: ([^`]+))?`")
POINTERS = sorted(
    {(path, name) for path, names in NAMED.findall(PAGE) for name in names.split(", ")}
)
SECTIONS = """
1 2 3 3.1 3.2 3.3 4 5 5.1 5.2 6 7 A B.1 B.2 B.3 C
""".split()  # noqa: SIM905  it reads better so
SMALLER = "2.1 2.2 4.1 4.2 4.3 4.4".split()  # noqa: SIM905
NUMBERED = {"Table": 10, "Figure": 4, "Algorithm": 2}
FORMULAS = ("Σ_t Σ_o −log P(o \\| q, B, P_{t−1})", "f(S)", "l(y) = ((5 + y) / (5 + 1))^β")
TABLES = {
    **{"model": "ModelConfig", "data": "DataConfig", "objective": "ObjectiveConfig"},
    **{"dev": "DevConfig", "reader": "ReaderConfig", "loop": "LoopConfig"},
}
VERDICTS = {"same", "choice", "differs", "not done"}


def named_in(body: list[ast.stmt], inside: str = "") -> Iterator[str]:
    """Yield what a body defines, members of classes as `Class.member`."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield f"{inside}{node.name}"
        if isinstance(node, ast.ClassDef):
            yield from named_in(node.body, f"{inside}{node.name}.")
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one for target in targets for one in ast.walk(target)]
            yield from (f"{inside}{one.id}" for one in names if isinstance(one, ast.Name))


@cache
def names_of(path: Path) -> set[str]:
    """Return the names of a module, or the keys of a recipe."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return set(named_in(ast.parse(text).body))
    tables = tomllib.loads(text)
    inner = {f"{k}.{name}" for k, v in tables.items() if isinstance(v, dict) for name in v}
    return tables.keys() | inner


def test_every_pointer_resolves() -> None:
    assert len(POINTERS) > 150
    missing = [
        f"{path}: {name}"
        for path, name in POINTERS
        if not (ROOT / path).exists() or (name and name not in names_of(ROOT / path))
    ]
    assert missing == []


def test_settings_that_are_named_are_there() -> None:
    known = names_of(ROOT / "jpr/train/recipe.py") | names_of(ROOT / "jpr/train/loop.py")
    named = re.findall(rf"`({'|'.join(TABLES)})\.(\w+)(?: = [^`]+)?`", PAGE)
    assert len(named) > 12
    assert [name for name in named if f"{TABLES[name[0]]}.{name[1]}" not in known] == []


def test_a_wrong_pointer_would_be_seen() -> None:
    names = names_of(ROOT / "jpr" / "decode" / "search.py")
    assert {"Limits", "Limits.budget", "Selection.fits", "Rows", "decode_many"} <= names
    assert not {"depth", "Limits.depth", "numpy"} & names
    assert "loop.steps" in names_of(ROOT / "recipes" / "reader.toml")


def test_all_of_the_paper_is_there() -> None:
    headings = " ".join(re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)).replace("Appendix ", "")
    found_there = re.findall(r"(?<![\w.])(\d(?:\.\d)?|[A-C](?:\.\d)?)(?=[.: ])", headings)
    assert [section for section in SECTIONS if section not in found_there] == []
    rows = "\n".join(re.findall(r"^\| ([^|]*)", PAGE, re.MULTILINE))
    assert [part for part in SMALLER if part not in rows] == []
    expected = [f"{kind} {n}" for kind, last in NUMBERED.items() for n in range(1, last + 1)]
    assert [one for one in expected if not re.search(rf"\b{one}\b", PAGE)] == []
    assert [formula for formula in FORMULAS if formula not in PAGE] == []


def test_every_row_says_whether_it_is_the_same() -> None:
    mapped, _, _ = PAGE.partition("## Beyond the paper")
    rows = [re.split(r"(?<!\\)\|", line) for line in mapped.splitlines() if line.startswith("| ")]
    found_there = [
        cells[3].strip() for cells in rows if cells[1].strip() not in ("in the paper", "---")
    ]
    assert len(found_there) > 60
    wrong = [
        cell for cell in found_there if not cell.startswith(tuple(f"**{v}**" for v in VERDICTS))
    ]
    assert wrong == []
