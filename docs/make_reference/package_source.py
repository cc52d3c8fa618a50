"""What the package's source says of itself: names, signatures, docstrings; nothing is imported."""

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Node = Function | ast.ClassDef | ast.Assign | ast.AnnAssign
_SHORT = 40


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """A name at the top of a module, or a member of a class."""

    name: str
    node: Node
    doc: str
    home: "Module"

    @property
    def is_public(self) -> bool:
        """Whether it is for others: methods with two underscores are, where they are explained."""
        name = self.name
        return not name.startswith("_") or (name.endswith("__") and bool(self.doc))

    @property
    def decorators(self) -> list[str]:
        """The names of what is written above it."""
        if isinstance(self.node, ast.Assign | ast.AnnAssign):
            return []
        return [ast.unparse(one).partition("(")[0] for one in self.node.decorator_list]

    @property
    def bases(self) -> list[str]:
        """What a class is made from."""
        assert isinstance(self.node, ast.ClassDef)
        return [ast.unparse(base) for base in self.node.bases]

    @property
    def members(self) -> list["Symbol"]:
        """What a class has, in its order."""
        assert isinstance(self.node, ast.ClassDef)
        return list(_symbols(self.node.body, self.home))

    @property
    def given(self) -> list[str]:
        """The public attributes that objects of a class are given when they are made."""
        made = [one.node for one in self.members if one.name == "__init__"]
        stored = [one for node in made for one in ast.walk(node) if isinstance(one, ast.Attribute)]
        own = [one.attr for one in stored if isinstance(one.ctx, ast.Store)]
        return [name for name in dict.fromkeys(own) if not name.startswith("_")]


class Module:
    """A module of the repository, by its path."""

    def __init__(self, path: Path) -> None:
        """Read it."""
        self.path = path
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.tree, self.doc = tree, ast.get_docstring(tree) or ""
        self.symbols = {symbol.name: symbol for symbol in _symbols(tree.body, self)}
        self.imports: Mapping[str, tuple[str, str]] = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }

    def find(self, name: str) -> Symbol | None:
        """Return what a name means here, wherever in the package it is from."""
        if name in self.symbols:
            return self.symbols[name]
        module, original = self.imports.get(name, ("", ""))
        return opened(module).find(original) if module.split(".")[0] == "jpr" else None


@cache
def opened(name: str) -> Module:
    """Return a module of the package, such as `jpr.rerank.joint`."""
    path = ROOT.joinpath(*name.split("."))
    return Module(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))


def _symbols(body: Sequence[ast.stmt], home: Module) -> Iterator[Symbol]:
    """Yield what a body defines; a string after a value is what is said of it."""
    for at, node in enumerate(body):
        if isinstance(node, Function | ast.ClassDef):
            yield Symbol(node.name, node, ast.get_docstring(node) or "", home)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for one in (one for target in targets for one in ast.walk(target)):
                if isinstance(one, ast.Name):
                    yield Symbol(one.id, node, _said(body[at + 1 : at + 2]), home)


def _said(after: Sequence[ast.stmt]) -> str:
    match after:
        case [ast.Expr(ast.Constant(str() as text))]:
            return inspect.cleandoc(text)
    return ""


def spelt(annotation: ast.expr | None) -> str:
    """Return a type as it is written, without the quotes of what is defined later."""
    if annotation is None:
        return ""
    copy = ast.parse(ast.unparse(annotation), mode="eval")
    return ast.unparse(_Unquoted().visit(copy))


class _Unquoted(ast.NodeTransformer):
    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return node if ast.unparse(node.value) == "Literal" else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str):
            return ast.parse(node.value, mode="eval").body
        return node


def typed(symbol: Symbol) -> str:
    """Return a value as it is written: its name, its type, what it is."""
    node = symbol.node
    if isinstance(node, ast.AnnAssign):
        written = f"{symbol.name}: {spelt(node.annotation)}"
        return written if node.value is None else f"{written} = {value_of(node.value, symbol.home)}"
    assert isinstance(node, ast.Assign)
    return f"{symbol.name} = {value_of(node.value, symbol.home)}"


def value_of(node: ast.expr, home: Module) -> str:
    """Return a default as it is written; a constant's value where that is short."""
    written = ast.unparse(node)
    if written.startswith("field("):
        return "…"
    meant = home.find(written) if isinstance(node, ast.Name) else None
    value = assigned(meant) if meant else None
    if value is not None and len(ast.unparse(value)) <= _SHORT:
        written = ast.unparse(value)
    return "…" if isinstance(node, ast.Lambda) else written.replace("'", '"')


def assigned(symbol: Symbol) -> ast.expr | None:
    """Return what a name was given, by itself or with others."""
    match symbol.node:
        case ast.Assign([ast.Name()], value) | ast.AnnAssign(_, _, value):
            return value
        case ast.Assign([ast.Tuple(names)], ast.Tuple(values)):
            pairs = zip(names, values, strict=True)
            return next(v for name, v in pairs if ast.unparse(name) == symbol.name)
    return None


def strings(node: ast.expr, home: Module) -> tuple[str, ...]:
    """Return the strings of a tuple, or of a name that was given one; none where it is not such."""
    match node:
        case ast.Constant(str() as text):
            return (text,)
        case ast.Tuple(items) | ast.List(items):
            return tuple(text for item in items for text in strings(item, home))
        case ast.Starred(value):
            return strings(value, home)
        case ast.Name(name):
            meant = home.find(name)
            given = assigned(meant) if meant else None
            return strings(given, meant.home) if meant and given is not None else ()
    return ()


def parameters(node: Function, home: Module) -> list[str]:
    """Return what a function takes, as it is written; a method without `self` or `cls`."""
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    found = [_parameter(one, value, home) for one, value in zip(plain, defaults, strict=True)]
    if given.vararg:
        found.append("*" + _parameter(given.vararg, None, home))
    elif given.kwonlyargs:
        found.append("*")
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    found += [_parameter(one, value, home) for one, value in named]
    found += ["**" + _parameter(given.kwarg, None, home)] if given.kwarg else []
    return found[1:] if found and found[0] in ("self", "cls") else found


def _parameter(argument: ast.arg, default: ast.expr | None, home: Module) -> str:
    kind = f": {spelt(argument.annotation)}" if argument.annotation else ""
    value = f" = {value_of(default, home)}" if default else ""
    return f"{argument.arg}{kind}{value}"
