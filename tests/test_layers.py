"""Imports go one way: a layer may use those below it, never its siblings or those above."""

import ast
from pathlib import Path

import jpr

LAYERS = [
    {"__main__"},
    {"cli"},
    {"adapters", "serve"},
    {"train"},
    {"bundled"},
    {"batch", "pipeline"},
    {"evaluation"},
    {"read"},
    {"rerank"},
    {"retrieve"},
    {"encode"},
    {"decode", "models"},
    {"oracle"},
    {"coverage"},
    {"formats"},
    {"io"},
    {"stages", "text"},
    {"types", "errors"},
]
ROOT = Path(jpr.__file__).parent
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}


def parts_imported(source: str) -> set[str]:
    """The parts of the package that a module imports, wherever in its code."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "jpr":
            names |= {f"jpr.{alias.name}" for alias in node.names if alias.name != "__version__"}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names.add(node.module or "")
    return {name.split(".")[1] for name in names if name.startswith("jpr.")}


def violations(part: str, source: str) -> list[str]:
    return [
        f"{part} imports {used}"
        for used in sorted(parts_imported(source) - {part})
        if LEVEL[used] <= LEVEL[part]
    ]


def test_every_module_has_its_layer() -> None:
    found = {path.stem for path in ROOT.glob("*.py")} | {p.parent.name for p in ROOT.glob("*/*.py")}
    assert found - {"__init__"} == set(LEVEL)


def test_imports_point_down() -> None:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if part != "__init__":
            found += violations(part, path.read_text(encoding="utf-8"))
    assert not found


def test_a_violation_would_be_seen() -> None:
    assert violations("decode", "from jpr.models.joint import Joint") == ["decode imports models"]
    source = "def f():\n    import jpr.evaluation.measures"
    assert violations("text", source) == ["text imports evaluation"]
    assert violations("evaluation", "from jpr import coverage") == []
