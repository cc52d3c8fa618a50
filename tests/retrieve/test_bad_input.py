"""What a user can do to an index by mistake: one sentence, exit code 2, the old index as it was."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jpr.errors import ConfigError
from jpr.retrieve.index import Index, build_index
from jpr.types import Passage
from tests.cli.running import refused
from tests.retrieve.toy import WordEncoder, passages

ENCODER = WordEncoder()


def refused_apart(*arguments: object, before: Callable[[], object] | None = None) -> str:
    """Do the same as `refused` in a process of its own."""
    command = [sys.executable, "-m", "jpr", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, preexec_fn=before, check=False)
    assert result.returncode == 2, result.stderr
    (message,) = result.stderr.splitlines()
    return message.removeprefix("jpr: ")


def corpus_file(folder: Path, corpus: list[Passage]) -> Path:
    path = folder / "corpus.tsv"
    rows = ((passage.id, passage.text, passage.title) for passage in corpus)
    path.write_text("".join("\t".join(row) + "\n" for row in (("id", "text", "title"), *rows)))
    return path


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Path]:
    """An index that must be the same after the test."""
    build_index(passages(40), tmp_path / "index", source="first", encoder=ENCODER)
    before = Index(tmp_path / "index").search_bm25("castle", 5)
    yield tmp_path / "index"
    now = Index(tmp_path / "index")
    assert (now.manifest.source, now.search_bm25("castle", 5)) == ("first", before)
    assert {path.name for path in (tmp_path / "index").iterdir()} == {"CURRENT", "lock", "v1"}


def build(corpus: Path, index: Path) -> tuple[object, ...]:
    return "index", corpus, "--out", index, "--encoder", "none"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the file is empty"),
        ("id\ttext\ttitle\n", "holds no record"),
        (
            "id\ttext\ttitle\n1\tone\tA\n1\ttwo\tB\n",
            "corpus.tsv:3: id '1' was used before; ids must differ",
        ),
        (
            "id\ttext\ttitle\n1\tone\tA\n\ttwo\tB\n",
            "corpus.tsv:3: the id is empty; give every passage one",
        ),
    ],
)
def test_a_corpus_that_is_none(tmp_path: Path, index: Path, text: str, expected: str) -> None:
    (tmp_path / "corpus.tsv").write_text(text)
    assert expected in refused(*build(tmp_path / "corpus.tsv", index))


def test_a_corpus_that_is_not_there_and_an_empty_folder(tmp_path: Path, index: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert "No such file" in refused(*build(tmp_path / "missing", index))
    assert "holds no readable document" in refused(*build(tmp_path / "folder", index))


def test_a_passage_of_a_megabyte_and_ids_with_spaces(tmp_path: Path) -> None:
    large = Passage("a large one", "", "word " * 200_000 + "needle")
    odd = Passage(
        "  two  spaces ", "Half a character \ud800", "needle", {"of meta": ["x" * 70_000]}
    )
    build_index([large, odd], tmp_path, source="x", encoder=ENCODER)
    found = Index(tmp_path)
    assert {found.store[row].id for row, _ in found.search_bm25("needle", 5)} == {large.id, odd.id}
    assert [found.store[row] for row in (0, 1)] == [large, odd]
    assert found.search_bm25("needle", 5, {"of meta": ["x" * 70_000]})[0][0] == 1


@pytest.mark.parametrize("kilobytes", [4, 32, 128])
def test_a_full_disk(tmp_path: Path, index: Path, kilobytes: int) -> None:
    corpus = corpus_file(tmp_path, passages(4000, 1))
    limit = kilobytes * 1024

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    assert "cannot be" in refused_apart(*build(corpus, index), before=small)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 600 kB, where the system lets us mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_disk_that_fills_up_and_one_that_is_read_only(tmp_path: Path, small_disk: Path) -> None:
    little, much = small_disk / "index", corpus_file(tmp_path, passages(8000, 1))
    build_index(passages(40), little, source="first")
    before = Index(little).search_bm25("castle", 5)
    assert "No space left on device" in refused_apart(*build(much, little))
    assert Index(little).search_bm25("castle", 5) == before
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert "Read-only file system" in refused_apart(*build(much, little))
    assert Index(little).search_bm25("castle", 5) == before  # reading needs no right to write


def test_an_index_whose_first_build_was_killed_is_unfinished(tmp_path: Path) -> None:
    (tmp_path / "index" / "v1").mkdir(parents=True)
    (tmp_path / "index" / "lock").touch()
    for command in (("retrieve", tmp_path / "index", "who?"), ("doctor", tmp_path / "index")):
        assert "index is unfinished" in refused(*command)


def test_an_id_that_was_to_be_a_file(index: Path) -> None:
    said = refused("index", "--remove", "ids.txt", "--out", index)
    assert "'ids.txt' is not in the index" in said
    assert "no file" in said


def test_a_target_that_cannot_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    corpus = corpus_file(tmp_path, passages(3))
    assert "file: is a file" in refused(*build(corpus, tmp_path / "file"))
    below = tmp_path / "file" / "below"
    assert "cannot be written: Not a directory" in refused(*build(corpus, below))


def test_a_folder_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "models" / "v1").mkdir(parents=True)
    (tmp_path / "models" / "v1" / "weights").write_text("precious")
    message = refused(*build(corpus_file(tmp_path, passages(3)), tmp_path / "models"))
    assert "v1" in message.partition("models: ")[2]
    assert (tmp_path / "models" / "v1" / "weights").read_text() == "precious"


NOBODY = """
import os, sys
from pathlib import Path
from jpr.errors import JprError
from jpr.retrieve.index import Index, build_index
import jpr.retrieve.dense, mmap, tempfile
if os.getuid() == 0:
    os.setuid(65534)
print(len(Index(sys.argv[1]).search_bm25("castle", 5)))
try:
    build_index([], Path(sys.argv[1]), source="x")
except JprError as error:
    print(error)
"""


def test_who_may_only_read_can_search_but_not_write(tmp_path: Path, index: Path) -> None:
    folders = [index, *(path for path in index.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    for folder in tmp_path.parents[:3]:  # pytest's own are closed to others
        if not folder.stat().st_mode & 0o001:
            folder.chmod(0o755)
    tmp_path.chmod(0o755)
    command = [sys.executable, "-c", NOBODY, str(index)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not result.stderr
    found, message = result.stdout.splitlines()
    assert found == "5"
    assert message.endswith("cannot be written: Permission denied")
    for folder in folders:
        folder.chmod(0o755)


def test_two_writers_at_once(tmp_path: Path) -> None:
    corpus = corpus_file(tmp_path, passages(3))

    def meanwhile() -> Iterator[Passage]:
        with pytest.raises(ConfigError, match="another process is writing"):
            build_index(passages(1), tmp_path / "index", source="rival")
        assert "another process is writing" in refused_apart(*build(corpus, tmp_path / "index"))
        yield from passages(5)

    build_index(meanwhile(), tmp_path / "index", source="first")
    assert Index(tmp_path / "index").manifest.source == "first"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "--remove"),
        (["corpus.tsv", "--remove", "1"], "either a corpus"),
        (["--add", "--remove", "1"], "--add and --remove"),
        (["corpus.tsv", "--set", "replace=true"], "replace=true needs --add"),
        (["--remove", "1"], "passage id '1' is not in the index"),
        (["corpus.tsv", "--vectors", "v", "--encoder", "none"], "exclude each other"),
        (["corpus.tsv", "--encoder", "missing"], "missing: not a folder"),
    ],
)
def test_options_without_meaning(index: Path, arguments: list[str], expected: str) -> None:
    assert expected in refused("index", *arguments, "--out", index)
