"""The index of a folder of documents, kept up with its files."""

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jpr.encode.encoder_folder import BUNDLED_ENCODER
from jpr.errors import ConfigError, FormatError
from jpr.io.locks import locked
from jpr.retrieve import document_index
from jpr.retrieve.document_cache import cached_indexes, prune
from jpr.retrieve.document_index import index_documents
from jpr.retrieve.index import Index
from jpr.retrieve.version_writer import VersionWriter
from jpr.stages import Progress
from tests.retrieve.sample import WordEncoder


class Library:
    """A folder of documents and the place of its index."""

    def __init__(self, place: Path) -> None:
        self.folder, self.home, self.encoder = place / "docs", place / "home", WordEncoder()
        self.folder.mkdir()

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / f"{name}.txt").write_text(text, encoding="utf-8")

    def index(self) -> Path:
        return index_documents(self.folder, self.home, self.encoder, BUNDLED_ENCODER)

    def holds(self) -> dict[str, str]:
        """Bring the index up to date, and return its texts by their ids."""
        index = Index(self.index())
        found = {passage.id: passage.text for passage in index.store}
        for id, text in found.items():  # words and vectors know it, too
            row = index.store.row_of(id)
            assert row in [row for row, _ in index.search_bm25(text, len(found))]
            (near,) = index.search_dense(self.encoder.encode_questions([text]), len(found))
            assert row in [row for row, _ in near]
        return found

    def history(self) -> list[str]:
        return [change.what for change in Index(self.index()).manifest.history]


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path)


def test_only_what_changes_is_read_and_encoded(library: Library) -> None:
    library.write(a="old castle", b="stone bridge", c="fish market")
    assert library.holds() == {
        "a.txt#1": "old castle", "b.txt#1": "stone bridge", "c.txt#1": "fish market"
    }  # fmt: skip
    assert library.encoder.encoded == 3
    before = library.index()
    assert library.holds() == library.holds()
    assert library.index() == before
    library.write(b="wooden bridge", d="tall tower")
    (library.folder / "c.txt").unlink()
    assert library.holds() == {
        "a.txt#1": "old castle", "b.txt#1": "wooden bridge", "d.txt#1": "tall tower"
    }  # fmt: skip
    assert library.encoder.encoded == 5
    assert library.history() == ["build", "update"]


def test_a_file_that_was_only_touched_is_not_read_again(library: Library) -> None:
    library.write(a="old castle", b="stone bridge")
    library.index()
    os.utime(library.folder / "a.txt", ns=(1, 1))
    library.index()
    assert (library.encoder.encoded, library.history()) == (2, ["build"])


def test_a_file_of_the_same_size_and_another_time_is_read_again(library: Library) -> None:
    library.write(a="old castle", b="stone bridge")
    library.index()
    library.write(a="new castle")
    os.utime(library.folder / "a.txt", ns=(1, 1))
    assert library.holds()["a.txt#1"] == "new castle"


def test_a_file_that_becomes_shorter_leaves_nothing_behind(library: Library) -> None:
    library.write(a=" ".join(f"castle{n}" for n in range(200)), b="stone bridge")
    assert len(library.holds()) > 3
    library.write(a="old castle")
    assert library.holds() == {"a.txt#1": "old castle", "b.txt#1": "stone bridge"}


def test_an_index_that_has_grown_or_is_worn_is_built_again(library: Library) -> None:
    library.write(a="old castle")
    library.index()
    library.write(b="stone bridge", c="fish market")
    assert len(library.holds()) == 3
    assert library.history() == ["build"]
    for number in range(6):
        library.write(a=f"castle number {number}")
        assert library.holds()["a.txt#1"] == f"castle number {number}"
    assert len(library.history()) < 5


def test_an_unreadable_file_gives_one_warning_and_the_rest_is_indexed(library: Library) -> None:
    library.write(a="old castle")
    (library.folder / "b.txt").write_bytes(b"caf\xe9")
    with pytest.warns(UserWarning, match=r"b\.txt: is not UTF-8.*left out") as caught:
        assert list(library.holds()) == ["a.txt#1"]
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        library.index()
    library.write(b="stone bridge")
    assert list(library.holds()) == ["a.txt#1", "b.txt#1"]


def test_a_file_that_can_no_longer_be_read_goes(library: Library) -> None:
    library.write(a="old castle", b="stone bridge")
    library.index()
    (library.folder / "a.txt").write_bytes(b"caf\xe9")
    with pytest.warns(UserWarning, match="left out"):
        assert list(library.holds()) == ["b.txt#1"]


def test_a_folder_without_text_is_an_error_and_changes_nothing(library: Library) -> None:
    with pytest.raises(FormatError, match="holds no readable document"):
        library.index()
    library.write(a="old castle")
    library.index()
    (library.folder / "a.txt").unlink()
    with pytest.raises(FormatError, match="holds no readable document"):
        library.index()
    library.write(a="old castle")
    assert list(library.holds()) == ["a.txt#1"]
    assert library.encoder.encoded == 1


class Killed(BaseException):
    """What a kill looks like from inside."""


@pytest.mark.parametrize("step", ["add", "remove", "finish", "after"])
def test_a_kill_at_any_step_is_made_good(
    library: Library, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    library.write(a=" ".join(f"castle{n}" for n in range(200)), b="stone bridge", c="fish market")
    library.index()
    library.write(a="old castle", d="tall tower")
    (library.folder / "c.txt").unlink()

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if step == "after":  # the index is there, what says so is not
            patch.setattr(document_index._Update, "_write_notes", killed)
        else:
            patch.setattr(VersionWriter, step, killed)
        with pytest.raises(Killed):
            library.index()
    assert library.holds() == {
        "a.txt#1": "old castle", "b.txt#1": "stone bridge", "d.txt#1": "tall tower"
    }  # fmt: skip


def test_notes_that_are_damaged_or_of_another_index_are_not_believed(library: Library) -> None:
    library.write(a="old castle")
    notes = library.index().parent / "files.json"
    record = json.loads(notes.read_text(encoding="utf-8"))
    for wrong in ("{", "{}", json.dumps({**record, "index": "x"}), '{"index": 1, "files": [7]}'):
        notes.write_text(wrong, encoding="utf-8")
        assert list(library.holds()) == ["a.txt#1"]


def test_folders_and_encoders_have_indexes_of_their_own(library: Library, tmp_path: Path) -> None:
    library.write(a="old castle")
    (tmp_path / "link").symlink_to(library.folder)
    first = library.index()
    linked = index_documents(tmp_path / "link", library.home, library.encoder, BUNDLED_ENCODER)
    other = index_documents(library.folder, library.home, WordEncoder("other"), BUNDLED_ENCODER)
    assert first == linked != other


def test_progress_is_shown(library: Library) -> None:
    library.write(a="old castle", b="stone bridge")
    shown = []

    @contextmanager
    def watched(what: str, total: int | None) -> Iterator[Progress]:
        done: list[int] = []
        yield done.append
        shown.append((what, total, sum(done)))

    index_documents(library.folder, library.home, library.encoder, BUNDLED_ENCODER, watched)
    assert shown == [("reading files", 2, 2), ("encoding passages", 2, 2)]


def test_a_cache_that_cannot_be_written_is_an_error(library: Library, tmp_path: Path) -> None:
    library.write(a="old castle")
    library.home = tmp_path / "file" / "home"
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"cannot be written: .*; name another .* JPR_CACHE"):
        library.index()


ONE_OF_MANY = """
import sys
from pathlib import Path
from jpr.encode.encoder_folder import BUNDLED_ENCODER
from jpr.retrieve.document_index import index_documents
from jpr.retrieve.index import Index
from tests.retrieve.sample import WordEncoder
index = index_documents(Path(sys.argv[1]), Path(sys.argv[2]), WordEncoder(), BUNDLED_ENCODER)
sys.exit(len(Index(index).store) != 30 or len(Index(index).manifest.history) != 1)
"""


def test_processes_at_the_same_time_wait_for_each_other(library: Library) -> None:
    library.write(**{f"f{number}": f"castle number {number}" for number in range(30)})
    command = [sys.executable, "-c", ONE_OF_MANY, str(library.folder), str(library.home)]
    started = [subprocess.Popen(command) for _ in range(3)]
    end = time.monotonic() + 120
    assert [one.wait(timeout=end - time.monotonic()) for one in started] == [0, 0, 0]


def test_only_the_owner_can_read_the_index(library: Library) -> None:
    library.write(a="old castle")
    before = os.umask(0)
    try:
        library.index()
        (key,) = library.home.iterdir()
        key.chmod(0o755)  # as an earlier version made it
        (key / "files.json").chmod(0o644)
        library.index()
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in (library.home, *library.home.rglob("*"))}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


def test_the_cache_is_listed_and_pruned(library: Library, tmp_path: Path) -> None:
    library.write(a="old castle")
    library.index()
    (key,) = library.home.iterdir()
    os.utime(key / "lock", (1, 1))
    unfinished = library.home / "unfinished"
    unfinished.mkdir()
    (unfinished / "lock").touch()
    first, second = cached_indexes(library.home)
    assert (first.place, first.folder, first.used) == (key, library.folder, 1)
    assert first.size == sum(path.stat().st_size for path in key.rglob("*") if path.is_file())
    assert (second.place, second.folder, second.size) == (unfinished, None, 0)
    library.index()  # a use
    assert prune(library.home, 1) == []
    with locked(key / "lock"):
        assert [one.place for one in prune(library.home, 0)] == [unfinished]
    library.folder.rename(tmp_path / "moved")
    assert [one.folder for one in prune(library.home, 1)] == [library.folder]
    assert list(library.home.iterdir()) == []


def test_pruning_and_indexing_at_once_leave_a_complete_index(library: Library) -> None:
    library.write(a="old castle")
    code = (
        "import sys; from pathlib import Path; from jpr.retrieve.document_cache import prune\n"
        "for _ in sys.stdin: print(len(prune(Path(sys.argv[1]), 0)), flush=True)"
    )
    command = [sys.executable, "-c", code, str(library.home)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as pruner:
        assert pruner.stdin
        for _ in range(10):
            pruner.stdin.write("\n")
            pruner.stdin.flush()
            library.index()
        removed = sum(map(int, pruner.communicate()[0].split()))
    assert removed <= 11
    assert library.holds() == {"a.txt#1": "old castle"}
