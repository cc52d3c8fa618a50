"""docs/reference/ is made from the code, whole, and by reading it alone."""

import re
import subprocess
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

import jpr
from jpr.cli import app

ROOT = Path(__file__).resolve().parents[1]
MAKER = ROOT / "docs" / "make_reference"
FOLDER = ROOT / "docs" / "reference"
NAMES = ("cli.md", "api.md", "config.md")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
HEAVY = ("numpy", "torch", "onnxruntime", "faiss", "tantivy", "tokenizers", "regex")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(MAKER))
    spec = spec_from_file_location("make_reference", MAKER / "__main__.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_what_the_code_says_now(made: ModuleType, name: str) -> None:
    assert tuple(made.PAGES) == NAMES
    now = made.page(name)
    assert text_of(name) == now, f"docs/reference/{name} is old; run: python docs/make_reference"


def test_the_command_that_makes_them_is_told() -> None:
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "python docs/make_reference" in told


def test_every_command_and_option_is_there() -> None:
    page = text_of("cli.md")
    sections = dict(re.findall(r"^## jpr (\S+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert list(sections) == [command.name for command in app.registered_commands]
    for name, section in sections.items():
        shown = CliRunner().invoke(app, [name, "--help"]).stdout.partition("Options:")[2]
        options = re.findall(r"^  (?:-\w, )?(-[-\w]+)", shown, re.MULTILINE)
        assert [option for option in options if f"`{option}`" not in section] == ["--help"], name


def test_every_public_name_is_there() -> None:
    told = {name for heading in HEADING.findall(text_of("api.md")) for name in heading.split(", ")}
    assert set(jpr.__all__) <= told


def test_every_key_of_every_recipe_is_there() -> None:
    page = text_of("config.md")
    for recipe in sorted(ROOT.glob("recipes/**/*.toml")):
        for key, value in tomllib.loads(recipe.read_text(encoding="utf-8")).items():
            tables = value if isinstance(value, list) else [value]
            names = [name for table in tables if isinstance(table, dict) for name in table] or [key]
            assert [name for name in names if f"\n| `{name}` |" not in page] == [], recipe


def test_every_setting_says_what_it_is_for() -> None:
    assert re.findall(r"^\| `(\w+)` .* \|  \|$", text_of("config.md"), re.MULTILINE) == []


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    page = re.sub(r"^```.*?^```$", "", text_of(name), flags=re.MULTILINE | re.DOTALL)
    anchors = [re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in HEADING.findall(page)]
    for file, anchor in re.findall(r"\]\(([^()#\s]*)#?([^()\s]*)\)", page):
        assert (FOLDER / file).exists(), file
        assert file or anchors.count(anchor) == 1, anchor


def test_the_package_is_read_and_not_loaded() -> None:
    code = f"""
import sys
sys.path.insert(0, {str(MAKER)!r})
from api_page import api_page
from config_page import config_page
assert list(api_page()) and list(config_page())
print(*[name for name in sys.modules if name.split(".")[0] in {("jpr", *HEAVY)!r}])
import cli_page
assert list(cli_page.cli_page())
print(*[name for name in sys.modules if name.split(".")[0] in {HEAVY!r}])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_a_command_is_told_as_it_is_declared(made: ModuleType) -> None:
    tried = typer.Typer()

    @tried.command("boil", help="Boil an egg.\n\nLonger is\nharder.\n\nExample: jpr boil brown")
    def _boil(
        egg: Annotated[str, typer.Argument(help="Which.")],
        minutes: Annotated[int, typer.Option("--minutes", "-m", min=1, help="How long.")] = 4,
        salt: Annotated[list[str] | None, typer.Option(help="Of a | b.")] = None,
        soft: Annotated[bool, typer.Option(help="Not hard.")] = False,
    ) -> None: ...

    @tried.command("rest")
    def _rest() -> None: ...

    commands = sys.modules["cli_page"]
    assert list(commands.entry("boil", commands.commands_of(tried)["boil"])) == [
        "## jpr boil",
        "```text\njpr boil EGG [options]\n```",
        "Boil an egg.",
        "Longer is harder.",
        "| argument | default | what it says |\n| --- | --- | --- |\n| `EGG` | required | Which. |",
        "| option | default | what it says |\n| --- | --- | --- |\n"
        "| `--minutes`, `-m` *n ≥ 1* | `4` | How long. |\n"
        "| `--salt` *text* … |  | Of a \\| b. |\n"
        "| `--soft`, `--no-soft` |  | Not hard. |",
        "```sh\njpr boil brown\n```",
    ]


def test_an_environment_variable_that_nobody_explained_is_an_error(
    made: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = sys.modules["config_page"]
    monkeypatch.delitem(settings.ENVIRONMENT, "JPR_CACHE")
    with pytest.raises(SystemExit, match=r"explain .*: JPR_CACHE$"):
        made.page("config.md")
