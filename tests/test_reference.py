"""docs/reference/ is made from the code, whole, and by reading it alone."""

import re
import subprocess
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest
import typer

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


def test_pages_are_up_to_date(made: ModuleType) -> None:
    assert tuple(made.PAGES) == NAMES
    old = [name for name in NAMES if text_of(name) != made.page(name)]
    assert old == [], "run: python docs/make_reference"


def test_contributors_are_reported_the_command() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "python docs/make_reference" in page


def test_every_command_and_option_is_there() -> None:
    page = text_of("cli.md")
    sections = dict(re.findall(r"^## jpr (\S+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert list(sections) == [command.name for command in app.registered_commands]
    group: Any = typer.main.get_command(app)
    missing = [
        (name, option.opts)
        for name, section in sections.items()
        for option in group.commands[name].params
        if not any(f"`{opt}`" in section or f"`{option.metavar}`" in section for opt in option.opts)
        and option.param_type_name == "option"
    ]
    assert missing == []


def test_every_public_name_is_there() -> None:
    documented = {
        name for heading in HEADING.findall(text_of("api.md")) for name in heading.split(", ")
    }
    assert set(jpr.__all__) <= documented


def test_every_key_of_every_recipe_is_there() -> None:
    page = text_of("config.md")
    for recipe in sorted(ROOT.glob("recipes/**/*.toml")):
        for key, value in tomllib.loads(recipe.read_text(encoding="utf-8")).items():
            tables = value if isinstance(value, list) else [value]
            names = [name for table in tables if isinstance(table, dict) for name in table] or [key]
            assert [name for name in names if f"\n| `{name}` |" not in page] == [], recipe


def test_every_setting_says_what_it_is_for() -> None:
    assert re.findall(r"^\| `(\w+)` .* \|  \|$", text_of("config.md"), re.MULTILINE) == []


def test_links_lead_somewhere() -> None:
    broken = []
    for name in NAMES:
        page = re.sub(r"^```.*?^```$", "", text_of(name), flags=re.MULTILINE | re.DOTALL)
        headings = [heading.lower() for heading in HEADING.findall(page)]
        anchors = [re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings]
        for file, anchor in re.findall(r"\]\(([^()#\s]*)#?([^()\s]*)\)", page):
            if not (FOLDER / file).exists() or not (file or anchors.count(anchor) == 1):
                broken.append(f"{name}: {file}#{anchor}")
    assert broken == []


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


def test_a_command_is_shown_as_declared(made: ModuleType) -> None:
    tried = typer.Typer()

    @tried.command(
        "boil", help="Boil an egg.\n\nLonger is\nharder.", epilog="Example: jpr boil brown"
    )
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
        "| argument | default | meaning |\n| --- | --- | --- |\n| `EGG` | required | Which. |",
        "| option | default | meaning |\n| --- | --- | --- |\n"
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
