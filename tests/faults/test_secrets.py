"""Secrets of the environment stay out of everything that commands write."""

import shutil
from pathlib import Path

import pytest

from tests.cli.running import fails, jpr
from tests.read.fake_llm import answers, serving
from tests.read.fake_llm import fails as refuses

SECRETS = {name: f"secret-of-{name}" for name in ("OPENAI_API_KEY", "JPR_TOKEN", "MILVUS_TOKEN")}


@pytest.fixture
def home(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    monkeypatch.setenv("JPR_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(given, tmp_path / "in")
    return tmp_path


def check(folder: Path) -> None:
    for path in (path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        assert not any(secret.encode() in content for secret in SECRETS.values()), path


def test_of_training_and_of_an_index(home: Path) -> None:
    jpr("train", "in/recipe.toml", "--out", "trained")
    jpr("index", "in/corpus.jsonl", "--encoder", "in/encoder", "--out", "index")
    assert (home / "trained" / "manifest.json").exists()
    assert list(home.glob("index/v*/manifest.json"))
    check(home)


def test_of_reading_by_a_server_also_where_it_breaks_off(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = ("read", "in/run.jsonl", "--out", "read.jsonl", "--model", "tiny")
    with serving(answers(), answers(), refuses(401)) as server:
        said = fails(capsys, monkeypatch, *read, "--llm", server.url)
    assert (home / ".read.jsonl.part").exists()
    assert not any(secret in said for secret in SECRETS.values())
    check(home)
    with serving(answers()) as server:
        jpr(*read, "--llm", server.url)
    assert server.requests[0].headers["Authorization"] == f"Bearer {SECRETS['OPENAI_API_KEY']}"
    assert (home / "read.jsonl").exists()
    check(home)
