"""The page of commands: what each does, its arguments and options, examples."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Protocol, Union, get_args, get_origin, get_type_hints

import typer
from config_page import table

import jpr.cli

_KINDS = {str: "text", int: "n", float: "x", Path: "path"}
_HEAD = """# Commands

The same as `jpr COMMAND --help`. `jpr --version` prints the version."""


class Given(Protocol):
    """An argument or option of typer, whose class has no public name."""

    name: str
    opts: Sequence[str]
    secondary_opts: Sequence[str]
    param_type_name: str
    required: bool
    hidden: bool
    default: object
    show_default: bool | str | None
    metavar: str | None
    help: str | None


class Command(Protocol):
    """A command of typer, whose class has no public name."""

    help: str
    epilog: str | None
    callback: Callable[..., object]
    params: Sequence[Given]


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument or an option, as the page shows it."""

    names: tuple[str, ...]
    """As they are typed, the longest first."""
    value: str
    """What follows a name; empty for a flag."""
    is_option: bool
    is_required: bool
    repeats: bool
    default: str
    about: str

    @property
    def typed(self) -> str:
        """The option with its value."""
        names = ", ".join(f"`{name}`" for name in self.names)
        return f"{names} *{self.value}*" if self.value else names

    @property
    def usage(self) -> str:
        """The parameter in the usage line."""
        given = f"{self.names[0]} {self.value}".strip() if self.is_option else self.value
        given += "…" if self.repeats else ""
        return given if self.is_required else f"[{given}]"


def cli_page() -> Iterator[str]:
    """Yield the paragraphs of the page."""
    yield _HEAD
    yield (jpr.cli.__doc__ or "").partition("\n\n")[2].strip()
    commands = commands_of(jpr.cli.app)
    rows = [
        (f"[`jpr {name}`](#jpr-{name})", command.help.partition("\n\n")[0])
        for name, command in commands.items()
    ]
    yield table(("command", "what it does"), rows)
    for name, command in commands.items():
        yield from entry(name, command)


def commands_of(app: typer.Typer) -> Mapping[str, Command]:
    """Return the registered commands by name."""
    group: Any = typer.main.get_command(app)
    commands: Mapping[str, Command] = group.commands
    return commands


def entry(name: str, command: Command) -> Iterator[str]:
    """Yield the section of a command."""
    found = parameters(command)
    needed = [one.usage for one in found if one.is_required or not one.is_option]
    optional = any(one.is_option and not one.is_required for one in found)
    yield f"## jpr {name}"
    yield f"```text\n{' '.join(['jpr', name, *needed, *(['[options]'] * optional)])}\n```"
    yield from (" ".join(one.split()) for one in command.help.strip().split("\n\n"))
    for is_option, head in ((False, "argument"), (True, "option")):
        if rows := [_row(one) for one in found if one.is_option == is_option]:
            yield table((head, "default", "meaning"), rows)
    if command.epilog:
        examples = command.epilog.replace("Example: ", "").split("\n\n")
        yield "\n".join(["```sh", *examples, "```"])


def _row(parameter: Parameter) -> Sequence[str]:
    shown = parameter.typed if parameter.is_option else f"`{parameter.value}`"
    default = "required" if parameter.is_required else parameter.default
    return shown + (" …" if parameter.repeats else ""), default, parameter.about


def parameters(command: Command) -> list[Parameter]:
    """Return the parameters of a command, arguments first."""
    hints = get_type_hints(command.callback, include_extras=True)
    found = [_parameter(one, hints[one.name]) for one in command.params if not one.hidden]
    return sorted(found, key=lambda one: one.is_option)


def _parameter(given: Given, hint: Any) -> Parameter:  # noqa: ANN401  # whatever is a type
    kind, repeats = _kind(get_args(hint)[0])
    written = get_args(hint)[1]
    is_option = given.param_type_name == "option"
    usual = _KINDS.get(kind, "") if is_option else given.name.upper()
    value = (given.metavar or usual).removesuffix("...").strip("[]")
    if is_option and not given.metavar:
        value += _range(written.min, written.max)
    about = " ".join((given.help or "").split())
    names = (*sorted(given.opts, key=len, reverse=True), *given.secondary_opts)
    default = given.show_default if isinstance(given.show_default, str) else _default(given.default)
    return Parameter(names, value, is_option, given.required, repeats, default, about)


def _range(low: float | None, high: float | None) -> str:
    if low is None:
        return "" if high is None else f" ≤ {high}"
    return f" ≥ {low}" if high is None else f" from {low} to {high}"


def _kind(hint: Any) -> tuple[type, bool]:  # noqa: ANN401  # whatever is a type
    """Return the type of one value, and whether there may be several."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = [one for one in get_args(hint) if one is not NoneType]
    if get_origin(hint) is list:
        return get_args(hint)[0], True
    return hint, False


def _default(value: object) -> str:
    return "" if value is None or isinstance(value, bool | list) else f"`{value}`"
