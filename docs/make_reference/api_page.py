"""The page of public names: signature, docstring, attributes and methods of each."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from textwrap import indent

from package_source import ROOT, Function, Symbol, assigned, opened, parameters, spelt, typed

ORDER = (
    *("pipeline", "bundled", "retrieve", "rerank", "read", "evaluation", "coverage"),
    *("encode", "formats", "types", "errors"),
)
"""Order of the sections; other parts come last."""
_WIDE = 88
_VALUES = ast.Assign | ast.AnnAssign
_HEAD = """# Public names

All names that `from jpr import …` provides, in the order of a pipeline. At the end are the types of
arguments and results, among them the protocols that your own retriever, reranker or reader must
implement."""


def api_page() -> Iterator[str]:
    """Yield the paragraphs of the page."""
    yield _HEAD
    public = list(public_symbols())
    entries = [entry for _, symbols in _parts(public) for entry in symbols]
    linked = {one.name: _anchor(entry) for entry in entries for one in entry}
    yield " · ".join(f"[`{name}`]({linked[name]})" for name in sorted(linked, key=str.lower))
    for part, symbols in _parts(public):
        yield f"## jpr.{part}"
        yield opened(f"jpr.{part}").doc.split("\n\n")[0]
        for entry in symbols:
            yield from _entry(entry)
    yield "## Types"
    yield from _types(named_by(public))


def public_symbols() -> Iterator[Symbol]:
    """Yield what stands in `__init__.pyi`."""
    stub = ast.parse((ROOT / "jpr" / "__init__.pyi").read_text(encoding="utf-8"))
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found = [opened(node.module).find(alias.name) for alias in node.names]
            yield from (one for one in found if one)


def _parts(public: Sequence[Symbol]) -> list[tuple[str, list[list[Symbol]]]]:
    """Return the parts of the package with their entries; values of one module share theirs."""
    return [
        (part, [list(entry) for _, entry in groupby(symbols, _entry_of)])
        for part, symbols in groupby(sorted(public, key=_rank), _part)
    ]


def _part(symbol: Symbol) -> str:
    return symbol.home.path.relative_to(ROOT / "jpr").parts[0].removesuffix(".py")


def _rank(symbol: Symbol) -> tuple[int, str]:
    part = _part(symbol)
    return (ORDER.index(part) if part in ORDER else len(ORDER), part)


def _entry_of(symbol: Symbol) -> str:
    return symbol.home.doc if isinstance(symbol.node, _VALUES) else symbol.name


def _heading(entry: Sequence[Symbol]) -> str:
    return ", ".join(one.name for one in entry)


def _anchor(entry: Sequence[Symbol]) -> str:
    return "#" + re.sub(r"[^\w\- ]", "", _heading(entry).lower()).replace(" ", "-")


def _entry(entry: Sequence[Symbol], is_made: bool = True) -> Iterator[str]:
    first = entry[0]
    yield f"### {_heading(entry)}"
    if isinstance(first.node, _VALUES):
        kind = spelt(assigned(first)).partition("(")[0]
        yield f"Values of [`{kind}`](#{kind.lower()})."
        yield from prose(first.home.doc)
        return
    path = first.home.path.relative_to(ROOT).as_posix()
    yield f"```py\n# {path}\n{_wrapped(*_head(first, is_made))}\n```"
    yield from prose(first.doc)
    if isinstance(first.node, ast.ClassDef):
        yield from _inside(first, is_made)


def _head(symbol: Symbol, is_made: bool) -> tuple[str, list[str], str]:
    """Return what stands before the parameters, the parameters, and what stands after them.

    Objects that are only given back are not made by anybody who reads this.
    """
    node = symbol.node
    if isinstance(node, Function):
        begins = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
        given = parameters(node, symbol.home)
        return f"{begins} {symbol.name}(", given, f") -> {spelt(node.returns)}"
    made = _made_by(symbol) if is_made else None
    if made:
        return f"class {symbol.name}(", parameters(made, symbol.home), ")"
    if _is_record(symbol):
        return f"class {symbol.name}(", [typed(one) for one in _fields(symbol)], ")"
    bases = f"({', '.join(symbol.bases)})" if symbol.bases else ""
    return f"class {symbol.name}{bases}", [], ""


def _made_by(symbol: Symbol) -> Function | None:
    found = [one.node for one in symbol.members if one.name == "__init__"]
    return found[0] if found and isinstance(found[0], Function) else None


def _is_record(symbol: Symbol) -> bool:
    return "dataclass" in symbol.decorators or "NamedTuple" in symbol.bases


def _fields(symbol: Symbol) -> list[Symbol]:
    """Return the values of a class that have a type: what a record is made of."""
    return [one for one in symbol.members if isinstance(one.node, ast.AnnAssign) and one.is_public]


def _inside(symbol: Symbol, is_made: bool) -> Iterator[str]:
    """Yield what an object is made with, its attributes, and its methods."""
    made = _made_by(symbol) if is_made else None
    if made:
        yield from prose(ast.get_docstring(made) or "")
        yield from (f"It is a `{base}`." for base in symbol.bases)
    shown = [one for one in symbol.members if one.is_public and one.name != "__init__"]
    in_head = {one.name for one in _fields(symbol) if _is_record(symbol)}
    items = [_member(one) for one in shown if one.doc or one.name not in in_head]
    known = {one.name for one in shown}
    if others := [f"`{name}`" for name in symbol.given if name not in known]:
        items.insert(0, f"- {', '.join(others)}")
    if items:
        yield "\n".join(items)


def _member(symbol: Symbol) -> str:
    """Return an attribute or a method as an item of a list."""
    node, kind = symbol.node, ""
    if isinstance(node, Function) and "property" in symbol.decorators:
        shown = f"{symbol.name}: {spelt(node.returns)}"
    elif isinstance(node, Function):
        shown = (
            f"{symbol.name}({', '.join(parameters(node, symbol.home))}) -> {spelt(node.returns)}"
        )
        kind = "class method " if "classmethod" in symbol.decorators else ""
        kind += "asynchronous " if isinstance(node, ast.AsyncFunctionDef) else ""
    else:
        shown = typed(symbol)
    paragraphs = "\n\n".join(indent(one, "  ") for one in prose(symbol.doc))
    return f"- {kind}`{shown}`\\\n{paragraphs}" if paragraphs else f"- {kind}`{shown}`"


def prose(doc: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring; examples as code."""
    for paragraph in re.split(r"\n\s*\n", doc.strip()):
        if paragraph.startswith(">>>"):
            yield f"```pycon\n{paragraph}\n```"
        elif paragraph:
            yield paragraph


def _wrapped(begin: str, middle: Sequence[str], end: str) -> str:
    """Return a signature on one line, or with a line for each parameter."""
    line = begin + ", ".join(middle) + end
    if len(line) <= _WIDE:
        return line
    return begin + "".join(f"\n    {one}," for one in middle) + f"\n{end}"


def _types(symbols: Sequence[Symbol]) -> Iterator[str]:
    """Yield entries of classes, then names for types in a list."""
    for symbol in symbols:
        if isinstance(symbol.node, ast.ClassDef):
            yield from _entry([symbol], is_made=False)
    names = [one for one in symbols if isinstance(one.node, _VALUES)]
    if names:
        yield "### Names for types"
        yield "\n".join(_member(one) for one in names)


def named_by(public: Sequence[Symbol]) -> list[Symbol]:
    """Return types of the package that public names mention, and that records among them hold."""
    known, found = {one.name for one in public}, dict[str, Symbol]()
    todo = list(public)
    while todo:
        symbol = todo.pop()
        for name in {name for node in _annotations(symbol) for name in _names(node)} - known:
            meant = symbol.home.find(name)
            if meant and not name.startswith("_"):
                known.add(name)
                found[name] = meant
                todo += (
                    [meant] if isinstance(meant.node, ast.ClassDef) and _is_record(meant) else []
                )
    return [found[name] for name in sorted(found, key=str.lower)]


def _names(node: ast.AST) -> Iterable[str]:
    return (one.id for one in ast.walk(node) if isinstance(one, ast.Name))


def _annotations(symbol: Symbol) -> Iterator[ast.AST]:
    """Yield the types that an entry shows."""
    members = symbol.members if isinstance(symbol.node, ast.ClassDef) else []
    hidden = "__init__" if "load" in {one.name for one in members} else ""
    for one in [symbol, *members]:
        node = one.node
        if one.name == hidden or not (one.is_public or one.name == "__init__"):
            continue
        if isinstance(node, ast.AnnAssign):
            yield ast.parse(spelt(node.annotation))
        elif isinstance(node, Function):
            written = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            given = [argument.annotation for argument in written]
            yield from (ast.parse(spelt(one)) for one in [*given, node.returns] if one)
