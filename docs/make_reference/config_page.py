"""The page of settings: every key of a recipe, every environment variable."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from package_source import ROOT, Module, Symbol, opened, spelt, strings

RECIPES = {"JointTraining": "A reranker's recipe", "ReaderTraining": "A reader's recipe"}
ENVIRONMENT = {
    "JPR_CACHE": "folder of the cache, in which a folder `jpr` is made",
    "XDG_CACHE_HOME": "the same if `JPR_CACHE` is not set; the default is `~/.cache`",
    "JPR_TOKEN": "`jpr serve`: the token that requests need, unless `--token-file` is given",
    "OPENAI_API_KEY": "`jpr read --llm` and `LlmReader`: the key for the endpoint",
    "MILVUS_TOKEN": "an index in Milvus: the token for the server",
    "WORLD_SIZE": "`jpr train`: set by torchrun, the number of processes",
    "LOCAL_RANK": "`jpr train`: set by torchrun, the GPU of this process",
    "PYTORCH_ALLOC_CONF": "`jpr train`: if set, torch's GPU memory settings are left alone",
    "PYTORCH_CUDA_ALLOC_CONF": "the same, by its older name",
}
"""Meaning of the variables that the source reads."""
_TYPES = {
    **{"int": "whole number", "float": "number", "str": "string", "bool": "boolean"},
    "tuple[str, ...]": "list of strings",
}
_HEAD = """# Settings

The keys of a training recipe (`jpr train RECIPE`, a TOML file), and the environment variables.
`--set table.key=value` changes a setting for one run; an unknown key is an error that names the
closest known one. [train.md](../train.md) explains the settings."""


def config_page() -> Iterator[str]:
    """Yield the paragraphs of the page."""
    yield _HEAD
    shown: set[str] = set()
    for name, title in RECIPES.items():
        recipe = opened("jpr.train.recipe").symbols[name]
        yield f"## {title}"
        yield from _recipe(recipe, shown)
    yield "## Environment variables"
    yield table(("variable", "meaning"), [(f"`{name}`", ENVIRONMENT[name]) for name in variables()])


def _recipe(recipe: Symbol, shown: set[str]) -> Iterator[str]:
    """Yield the keys at the top, then the tables; tables shown before are only named."""
    tables = {_written(one): found for one in _fields(recipe) if (found := _table(one))}
    yield _keys(recipe, [one for one in _fields(recipe) if not _table(one)])
    known = [written for written, found in tables.items() if found.name in shown]
    for written, found in tables.items():
        if written not in known:
            shown.add(found.name)
            yield f"### `{written}`"
            yield found.doc
            yield _keys(found, _fields(found))
    if known:
        yield f"{' and '.join(f'`{written}`' for written in known)}: as above."


def _fields(table: Symbol) -> list[Symbol]:
    return [one for one in table.members if isinstance(one.node, ast.AnnAssign)]


def _written(field: Symbol) -> str:
    assert isinstance(field.node, ast.AnnAssign)
    is_list = spelt(field.node.annotation).startswith("tuple")
    return f"[[{field.name}]]" if is_list else f"[{field.name}]"


def _table(field: Symbol) -> Symbol | None:
    """Return the class of a field that is a table, or a list of tables."""
    assert isinstance(field.node, ast.AnnAssign)
    found = re.fullmatch(r"(?:tuple\[)?(\w+)(?:, \.\.\.\])?", spelt(field.node.annotation))
    meant = field.home.find(found[1]) if found else None
    return meant if meant and isinstance(meant.node, ast.ClassDef) else None


def _keys(table_of: Symbol, fields: Sequence[Symbol]) -> str:
    choices = _choices(table_of)
    rows = []
    for field in fields:
        node = field.node
        assert isinstance(node, ast.AnnAssign)
        meaning = " ".join(field.doc.split())
        allowed = [f"`{one}`" for one in choices.get(field.name, ()) if one]
        if not all(one in meaning for one in allowed):
            meaning = f"{meaning} One of {', '.join(allowed)}.".lstrip()
        rows.append((f"`{field.name}`", _TYPES[spelt(node.annotation)], _toml(node.value), meaning))
    return table(("key", "type", "default", "meaning"), rows)


def _toml(default: ast.expr | None) -> str:
    """Return a default as TOML writes it."""
    if default is None:
        return "required"
    value = ast.literal_eval(default)
    if isinstance(value, tuple):
        return "`[]`" if not value else f"`{list(value)}`"
    written = str(value).lower() if isinstance(value, bool) else ast.unparse(default)
    return "`{}`".format(written.replace("'", '"'))


def _choices(table_of: Symbol) -> Mapping[str, tuple[str, ...]]:
    """Return what settings may be, from how they are checked: `not_one_of`, or `not in`."""
    checks = [one.node for one in table_of.members if one.name == "__post_init__"]
    found: dict[str, tuple[str, ...]] = {}
    for node in (one for check in checks for one in ast.walk(check)):
        match node:
            case ast.Call(ast.Name("not_one_of"), _, keywords):
                named = [(one.arg, one.value) for one in keywords if one.arg]
            case ast.Dict([*keys], [*values]):
                named = [
                    (key.value, value)
                    for key, value in zip(keys, values, strict=True)
                    if isinstance(key, ast.Constant) and isinstance(key.value, str)
                ]
            case ast.Compare(ast.Attribute(_, name), [ast.NotIn()], [allowed]):
                named = [(name, allowed)]
            case _:
                continue
        found |= {name: strings(value, table_of.home) for name, value in named}
    return found


def variables() -> list[str]:
    """Return the environment variables that the source reads, in the order of `ENVIRONMENT`."""
    found: set[str] = set()
    for path in sorted((ROOT / "jpr").rglob("*.py")):
        if "environ" in path.read_text(encoding="utf-8"):
            found |= _read_by(Module(path))
    if found != ENVIRONMENT.keys():
        differ = ", ".join(sorted(found ^ ENVIRONMENT.keys()))
        raise SystemExit(f"{__file__}: explain what is read and drop what is not: {differ}")
    return list(ENVIRONMENT)


def _read_by(module: Module) -> set[str]:
    """Return the names in capitals that stand where the environment is looked at."""
    looked = [
        one
        for node in ast.walk(module.tree)
        if isinstance(node, ast.expr) and "os.environ" in ast.unparse(node)
        for one in ast.walk(node)
        if isinstance(one, ast.Constant | ast.Name)
    ]
    texts = {text for one in looked for text in strings(one, module)}
    return {text for text in texts if re.fullmatch("[A-Z][A-Z0-9_]+", text)}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)
