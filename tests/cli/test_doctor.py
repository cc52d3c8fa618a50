"""`jpr doctor`, here and where next to nothing is installed."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

import jpr
from jpr.cli.doctor import EXTRAS, examine, instruction_sets
from tests.cli.running import jpr as run_jpr
from tests.cli.running import refused
from tests.encode.tiny import write_encoder

ROOT = Path(jpr.__file__).parent.parent
HEAVY = {
    "faiss", "numpy", "onnxruntime", "regex", "tantivy", "tokenizers",
    *(module for modules in EXTRAS.values() for module in modules),
}  # fmt: skip
"""What the command line itself can do without."""
MODULES = {
    "haystack-ai": "haystack",
    "langchain-core": "langchain_core",
    "llama-index-core": "llama_index",
    "python-docx": "docx",
    "python-multipart": "python_multipart",
}
"""What is imported of a distribution, where its name is another."""


def test_what_is_here_is_reported() -> None:
    found = json.loads(run_jpr("doctor", "--json"))
    assert found == examine()
    assert found["jpr"] == jpr.__version__
    assert found["cores"] >= 1
    assert "CPUExecutionProvider" in found["onnxruntime"]["providers"]
    assert found["extras"] == dict.fromkeys(EXTRAS, True)
    text = run_jpr("doctor")
    assert f"jpr           {jpr.__version__} on Python" in text
    assert "runs          models in ONNX, on the CPU" in text


def test_a_machine_with_nothing_is_advised_what_to_install(tmp_path: Path) -> None:
    for source in [ROOT / "jpr", *Path(sysconfig.get_path("purelib")).iterdir()]:
        if source.name not in HEAVY and not (tmp_path / source.name).exists():
            (tmp_path / source.name).symlink_to(source)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    bare = [sys.executable, "-S", "-m", "jpr", "doctor"]  # -S: without site-packages

    def output(*options: str) -> str:
        done = subprocess.run(
            [*bare, *options], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    found = json.loads(output("--json"))
    assert found["torch"] is found["onnxruntime"] is None
    assert found["extras"] == dict.fromkeys(EXTRAS, False)
    assert not any(found["can"].values())
    text = output()
    assert "onnxruntime   absent: pip install onnxruntime\n" in text
    for extra in EXTRAS:
        assert f"pip install 'jpr[{extra}]'" in text


def test_a_library_that_is_broken_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so:\\n not found')\n")
    (tmp_path / "onnxruntime").mkdir()  # left behind by an uninstallation
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-m", "jpr", "doctor", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["torch"] == {"problem": "libcudart.so: not found"}
    assert found["can"]["checkpoints"] is False


def distribution(needs: str) -> str:
    found = re.match(r"[\w.-]+", needs)
    assert found
    return found[0]


def test_the_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    brings = {
        extra: {MODULES.get(name, name) for name in map(distribution, extras[extra])}
        for extra in extras
        if extra not in ("dev", "docs")
    }
    assert brings == {extra: set(names) for extra, names in EXTRAS.items()}


def test_instruction_sets_are_read_from_what_linux_says() -> None:
    assert instruction_sets("processor\t: 0\nflags\t\t: fpu sse2\n") == []
    assert instruction_sets("Features : fp asimd asimddp i8mm bf16\n") == [
        "BF16", "NEON", "dot product", "I8MM",
    ]  # fmt: skip
    assert instruction_sets("") is None


def test_an_index_is_checked(tmp_path: Path) -> None:
    (tmp_path / "corpus.tsv").write_text("1\tred paint\tPaint\n2\tblue paint\tPaint\n")
    index = tmp_path / "index"
    run_jpr("index", tmp_path / "corpus.tsv", "--out", index)
    found = json.loads(run_jpr("doctor", index, "--json"))
    assert (found["format"], found["passages"], found["lexical"]) == (2, 2, True)
    assert found["encoder"]["found"] is True
    assert found["checksums"] >= len(list((index / "v1").glob("vectors/*")))
    assert "checksums" in run_jpr("doctor", index)
    (damaged,) = (index / "v1" / "vectors").glob("*.faiss")
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert damaged.name in refused("doctor", index)


def test_the_retrievers_of_an_index_are_compared_on_questions(tmp_path: Path) -> None:
    fillers = "".join(f"f{i}\tnumber {i} of many\tFiller\n" for i in range(12))
    (tmp_path / "corpus.tsv").write_text(f"1\tred paint X7B\tPaint\n2\tcold sea\tSea\n{fillers}")
    question = {"id": "q", "question": "who made X7B?", "answers": [["red paint"]]}
    (tmp_path / "q.jsonl").write_text(json.dumps(question))
    for encoder, kinds in (("none", ["bm25"]), (None, ["hybrid", "bm25", "dense"])):
        index = tmp_path / f"index-{encoder}"
        chosen = ["--encoder", encoder] if encoder else []
        run_jpr("index", tmp_path / "corpus.tsv", "--out", index, *chosen)
        found = json.loads(run_jpr("doctor", index, "-q", tmp_path / "q.jsonl", "--json"))
        runs = {
            run["run"]: run["measures"]["MRecall@5"]["all"] for run in found["retrievers"]["runs"]
        }
        assert list(runs) == kinds
        assert runs["bm25"] == 100
        assert found["passages"] == 14
    assert "MRecall@10" in run_jpr("doctor", index, "--questions", tmp_path / "q.jsonl")
    assert "needs an index" in refused("doctor", "--questions", tmp_path / "q.jsonl")


def test_a_lexical_index_needs_no_encoder_and_another_is_missed(tmp_path: Path) -> None:
    (tmp_path / "corpus.tsv").write_text("1\tred paint\tPaint\n")
    run_jpr("index", tmp_path / "corpus.tsv", "--out", tmp_path / "i", "--encoder", "none")
    found = json.loads(run_jpr("doctor", tmp_path / "i", "--json"))
    assert found["dense"] is found["encoder"] is None
    encoder = write_encoder(tmp_path / "encoder")
    run_jpr("index", tmp_path / "corpus.tsv", "--out", tmp_path / "i", "--encoder", encoder)
    encoder.rename(tmp_path / "moved")
    assert "its encoder cannot be loaded" in refused("doctor", tmp_path / "i")
    assert "jpr index CORPUS" in refused("doctor", tmp_path)


def test_the_cache_is_listed_and_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPR_CACHE", str(tmp_path / "cache"))
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("red paint")
    run_jpr("ask", "what is red?", "--docs", docs)
    found = json.loads(run_jpr("doctor", "cache", "--json"))
    (one,) = found["indexes"]
    assert (one["folder"], found["removed"]) == (str(docs), [])
    assert Path(one["index"]).parent == Path(found["cache"]) == tmp_path / "cache/jpr/documents"
    assert str(docs) in run_jpr("doctor", "cache", "1")
    assert f"{one['used'][:10]} " in run_jpr("doctor", "cache")
    docs.rename(tmp_path / "moved")
    assert json.loads(run_jpr("doctor", "cache", "1", "--json")) == {
        "cache": found["cache"], "indexes": [], "removed": [one]
    }  # fmt: skip
    assert not Path(one["index"]).exists()
    assert "cache" in refused("doctor", tmp_path, "30")
    assert "index" in refused("doctor", "cache", "-q", tmp_path / "q.jsonl")
