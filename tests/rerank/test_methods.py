"""Methods by name: a file with settings of its own, and one line in the table."""

import sys
from pathlib import Path

import pytest

from jpr.errors import ConfigError
from jpr.rerank import methods
from jpr.rerank.diversify import DiversifySettings
from jpr.rerank.joint import JointSettings
from jpr.rerank.methods import METHODS, Method, RerankOptions, make_reranker

EXTENDING = Path(__file__).parents[2] / "docs" / "extending.md"


def test_settings_of_a_method_are_typed_and_checked() -> None:
    pairs = ["decoder=sets", "beta=1", "conditioning=none", "lambda=0.5", "trust=1"]
    assert METHODS["joint"].settings(pairs) == JointSettings("sets", 1.0, None, "none", 0.5)
    assert METHODS["mmr"].settings(["lambda=0"]) == DiversifySettings(0.0)
    for method, pair, fact in [
        ("joint", "decoder=bush", "tree, sets, seq, beam, independent"),
        ("joint", "beta=nan", "finite"),
        ("joint", "budget=0", "0"),
        ("joint", "conditioning=some", "learned, coverage, none"),
        ("joint", "trust=2", "from 0 to 1"),
        ("joint", "encoder=x", "encoder"),
        ("mmr", "lambda=2", "between 0"),
        ("mmr", "lamda=1", "did you mean lambda"),
        ("oracle", "beta=1", "known: none"),
    ]:
        with pytest.raises(ConfigError, match=fact):
            METHODS[method].settings([pair])
    with pytest.raises(ConfigError, match="joint, pointwise, mmr"):
        make_reranker(RerankOptions("magic"))


def test_a_worker_opens_the_same_with_absolute_paths() -> None:
    options = RerankOptions("mmr", DiversifySettings(0.5, Path("models/e")), Path("m"))
    there = options.for_worker()
    assert there.model == Path("m").resolve()
    assert there.settings == DiversifySettings(0.5, Path("models/e").resolve())
    assert there.threads == 1
    assert make_reranker(RerankOptions("oracle").for_worker()).key == "oracle"


def test_the_method_of_the_documentation_runs_with_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = EXTENDING.read_text(encoding="utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    (tmp_path / "longest.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(methods.METHODS, "longest", Method("longest", "LongestSettings"))
    settings = METHODS["longest"].settings(["maximum=5"])
    reranker = make_reranker(RerankOptions("longest", settings))
    assert reranker.key == "longest 5"
    del sys.modules["longest"]
