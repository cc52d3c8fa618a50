"""File times prove nothing: a changed document is noticed by its content."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jpr.retrieve.document_index import index_documents
from jpr.retrieve.index import Index
from tests.retrieve.toy import WordEncoder

YEAR = 365 * 24 * 3600
AskAgain = Callable[[], list[str]]


@pytest.fixture
def document(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    path = tmp_path / "docs" / "a.txt"
    path.write_text("the old river is here")
    return path


@pytest.fixture
def asked(tmp_path: Path, given: Path, document: Path) -> AskAgain:
    def found() -> list[str]:
        tokenizer = given / "encoder" / "tokenizer.json"
        folder = index_documents(document.parent, tmp_path / "home", WordEncoder(), tokenizer)
        return [passage.text for passage in Index(folder).store]

    return found


@pytest.mark.parametrize("years", [-50, -1, 0, 1, 50], ids=str)
def test_a_change_of_the_same_size_and_time_is_noticed(
    document: Path, asked: AskAgain, years: int
) -> None:
    when = time.time() + years * YEAR
    os.utime(document, (when, when))
    assert asked() == ["the old river is here"]
    document.write_text("the old tower is here")
    os.utime(document, (when, when))
    assert asked() == ["the old tower is here"]


def test_a_clock_that_was_set_back_makes_no_difference(document: Path, asked: AskAgain) -> None:
    future = time.time() + YEAR
    os.utime(document, (future, future))
    assert asked() == ["the old river is here"]
    document.write_text("the new river is here")  # now, which is a year earlier
    assert asked() == ["the new river is here"]
    assert asked() == ["the new river is here"]


def test_a_change_within_a_tick_of_the_clock_is_noticed(
    document: Path, asked: AskAgain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk whose clock is coarse: before and after have the same times."""
    real, before = Path.stat, document.stat()

    def coarse(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = real(path, follow_symlinks=follow_symlinks)
        return before if path.name == document.name else found

    monkeypatch.setattr("jpr.retrieve.document_index._TICK", YEAR * 10**9)
    monkeypatch.setattr(Path, "stat", coarse)
    assert asked() == ["the old river is here"]
    document.write_text("the old tower is here")
    assert asked() == ["the old tower is here"]


def test_files_that_have_not_changed_are_not_read_again(
    document: Path, asked: AskAgain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jpr.retrieve.document_index._TICK", 0)
    asked()
    monkeypatch.setattr("jpr.retrieve.document_index.sha256", None)
    assert asked() == ["the old river is here"]
