"""What the source must not hold: ways for a file or a request to run code."""

import ast
from collections.abc import Iterator
from pathlib import Path

import jpr

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "yaml"}
HARMLESS = {"pickle.UnpicklingError"}
"""Names of such modules that run nothing."""
CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "torch.hub.load"}
OPTIONS = {"allow_pickle", "shell", "trust_remote_code"}
"""Arguments that must be false wherever they are given."""


def name_of(node: ast.expr) -> str:
    """Return a dotted name; "" where a node is none."""
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def dangers(tree: ast.AST) -> Iterator[str]:
    """Yield what is wrong with a module."""
    for node in ast.walk(tree):
        for name in imported(node):
            if name.partition(".")[0] in MODULES and name not in HARMLESS:
                yield f"imports {name}"
        if not isinstance(node, ast.Call):
            continue
        called = name_of(node.func)
        given = {one.arg: ast.unparse(one.value) for one in node.keywords}
        if called in CALLS:
            yield f"calls {called}"
        yield from (f"{called} with {option}" for option in OPTIONS & given.keys()
                    if given[option] != "False")  # fmt: skip
        if called == "torch.load" and given.get("weights_only") != "True":
            yield "calls torch.load without weights_only=True"


def test_nothing_runs_code_from_a_file() -> None:
    sources = sorted(Path(jpr.__file__).parent.rglob("*.py"))
    assert len(sources) > 100
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sources}
    assert [f"{path}: {danger}" for path, tree in trees.items() for danger in dangers(tree)] == []


def test_the_check_finds_dangers() -> None:
    bad = [
        "import pickle",
        "from pickle import load",
        "eval('1')",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
        "subprocess.run(line, shell=True)",
        "AutoModel.from_pretrained(name, trust_remote_code=flag)",
    ]
    assert [source for source in bad if not list(dangers(ast.parse(source)))] == []
