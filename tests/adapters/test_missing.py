"""What is not installed is named, and costs nothing until it is used."""

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from jpr.errors import MissingExtraError

NEEDS = {
    "haystack": "haystack",
    "langchain": "langchain_core.callbacks",
    "llamaindex": "llama_index.core.postprocessor.types",
    "pyterrier": "pyterrier",
    "rerankers": "rerankers.documents",
}


@pytest.mark.parametrize(("name", "library"), NEEDS.items())
def test_without_its_library_an_adapter_names_the_extra(
    name: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"jpr.adapters.{name}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'jpr\[{name}\]'"):
        import_module(f"jpr.adapters.{name}")


def test_the_extras_are_those_of_the_package() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    extras = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(NEEDS) <= set(extras)


def test_importing_the_package_imports_none_of_the_libraries() -> None:
    code = "import sys, jpr, jpr.adapters, jpr.adapters.crossencoder; "
    code += f"sys.exit(any(name.partition('.')[0] in sys.modules for name in {[*NEEDS.values()]}))"
    subprocess.run([sys.executable, "-c", code], check=True)
