"""Damage of large files is noticed before it changes results; what can be is made again."""

import json
import os
import random
import shutil
import subprocess
import tarfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from jpr.encode.vectors import vectors_for
from jpr.errors import ConfigError, FormatError
from jpr.retrieve.block_sums import HashedFile
from jpr.retrieve.engines import IndexOptions
from jpr.retrieve.files_engine import repair
from jpr.retrieve.index import Index, add_to_index, build_index, remove_from_index
from jpr.retrieve.index_manifest import VERIFY_UP_TO
from tests.cli.running import jpr as run_jpr
from tests.cli.running import refused
from tests.retrieve.toy import WideEncoder, WordEncoder, passages

PAGE, BLOCK = 4096, 1 << 20
OLD = Path(__file__).parents[1] / "retrieve" / "index-0.1.0.tar.xz"


WIDE = WideEncoder()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index whose dense file is too large to be hashed whenever it is opened."""
    folder = tmp_path_factory.mktemp("large") / "index"
    build_index(passages(4200), folder, source="test", encoder=WIDE)
    assert dense_file(folder).stat().st_size > VERIFY_UP_TO
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("JPR_CACHE", str(folder))
    monkeypatch.setattr("jpr.retrieve.block_sums.TICK", 0)  # files of tests are new
    return folder


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are hashed by blocks, in order."""
    names: list[str] = []
    hashes = HashedFile.hashes

    def count(file: HashedFile, block: int) -> list[str]:
        names.append(file.path.name)
        return hashes(file, block)

    monkeypatch.setattr(HashedFile, "hashes", count)
    return names


def dense_file(folder: Path) -> Path:
    return next(folder.glob("v*")) / "vectors" / "vectors.faiss"


def search(folder: Path) -> object:
    index = Index(folder)
    return index.search_dense(WIDE.encode_questions(["castle of the river"]), 100)


def overwrite(file: Path, place: int, content: bytes) -> bytes:
    """Change some bytes of a file; return what they were."""
    with file.open("r+b") as stream:
        stream.seek(place)
        before = stream.read(len(content))
        stream.seek(place)
        stream.write(content)
    return before


def test_a_zeroed_page_or_a_turned_bit_of_a_large_file_is_never_a_hit(large: Path) -> None:
    file, whole = dense_file(large), search(large)
    size = file.stat().st_size
    chance = random.Random(0)
    for place in np.linspace(PAGE, size - 2 * PAGE, 12, dtype=int).tolist():
        before = overwrite(file, place, bytes(PAGE))
        number = place // BLOCK + 1
        with pytest.raises(FormatError, match=rf"vectors\.faiss: .*damaged in block {number}[ ,]"):
            search(large)
        overwrite(file, place, before)
        assert search(large) == whole
    for place in (chance.randrange(size) for _ in range(40)):
        byte = file.read_bytes()[place]
        overwrite(file, place, bytes([byte ^ 1 << chance.randrange(8)]))
        with pytest.raises(FormatError):
            search(large)
        overwrite(file, place, bytes([byte]))
    assert search(large) == whole


def test_a_large_file_is_hashed_once_until_it_changes_or_a_week_has_passed(
    large: Path, cache: Path, hashed: list[str]
) -> None:
    file = dense_file(large)
    Index(large).search_bm25("castle", 5)
    assert hashed == []  # what is not used is not hashed
    for _ in range(2):
        search(large)
        assert hashed == [file.name]
    times = file.stat()
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a program that hides a change
    search(large)
    assert hashed == [file.name] * 2
    week_ago = times.st_mtime - 8 * 24 * 60 * 60
    for marker in cache.rglob("*"):
        if marker.is_file():
            os.utime(marker, (week_ago, week_ago))
    search(large)
    assert hashed == [file.name] * 3
    assert len([path for path in cache.rglob("*") if path.is_file()]) == 1  # old ones are removed


def test_without_a_cache_every_process_hashes(
    large: Path, cache: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / "file").touch()
    monkeypatch.setenv("JPR_CACHE", str(cache / "file"))
    assert search(large) == search(large)
    assert len(hashed) == 2


def test_a_file_that_was_just_written_is_not_noted(
    large: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jpr.retrieve.block_sums.TICK", 1e9)
    search(large)
    assert not any(path.is_file() for path in cache.rglob("*"))


def test_a_version_that_is_replaced_before_its_first_use_is_still_compared(
    large: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "index"
    shutil.copytree(large, folder)
    whole, old = search(large), Index(folder)
    remove_from_index(["id 0 7"], folder)
    assert old.search_dense(WIDE.encode_questions(["castle of the river"]), 100) == whole
    damaged = Index(folder)
    overwrite(dense_file(folder), 5 * BLOCK, bytes(PAGE))
    shutil.rmtree(folder)
    with pytest.raises(FormatError, match=r"damaged in block 6 of"):
        damaged.search_dense(WIDE.encode_questions(["castle"]), 5)


def test_every_large_file_is_compared_at_its_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of an index of millions of passages are; passages have checksums of their own."""
    monkeypatch.setattr("jpr.retrieve.index_manifest.VERIFY_UP_TO", 0)
    build_index(passages(60), tmp_path, source="a", encoder=WordEncoder())
    whole = everything(tmp_path)
    for file in sorted((tmp_path / "v1").glob("*/*")):
        if file.name.endswith((".json", ".lock")):
            continue
        content = file.read_bytes()
        for place in np.linspace(0, len(content) - 1, 12, dtype=int).tolist():
            turned = bytearray(content)
            turned[place] ^= 1 << place % 8
            file.unlink()  # an index that is still open maps it
            file.write_bytes(turned)
            with pytest.raises(FormatError):
                everything(tmp_path)
        file.write_bytes(content)
    assert everything(tmp_path) == whole


def everything(folder: Path) -> object:
    index = Index(folder)
    near = index.search_dense(WordEncoder().encode_questions(["river castle"]), 5)
    return near, index.search_bm25("river", 5), [one.id for one in index.store]


def test_the_doctor_names_every_damaged_file_and_block_and_notes_the_whole_ones(
    large: Path, cache: Path, hashed: list[str]
) -> None:
    file = dense_file(large)
    lexical = next(file.parents[1].glob("bm25/*.idx"))
    before = [overwrite(file, place * BLOCK, bytes(PAGE)) for place in (3, 16)]
    turned = overwrite(lexical, 9, b"x")
    message = refused("doctor", large)
    assert f"bm25/{lexical.name} is damaged" in message
    assert "vectors/vectors.faiss is damaged in block 4, 17 of 17" in message
    assert f"jpr index --out {large} --set repair=true" in message
    for place, content in zip((3, 16), before, strict=True):
        overwrite(file, place * BLOCK, content)
    assert "vectors.faiss" not in refused("doctor", large)
    overwrite(lexical, 9, turned)
    hashed.clear()
    search(large)
    assert hashed == []


def test_an_index_of_0_1_0_opens_and_one_command_adds_hashes_of_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path, filter="data")
    index = tmp_path / "index"
    found, key = everything(index), Index(index).key
    monkeypatch.setattr("jpr.retrieve.index_manifest.VERIFY_UP_TO", 0)
    assert everything(index) == found  # compared with the hash of the whole file
    run_jpr("index", "--out", index, "--set", "repair=true")
    assert (index / "v3" / "blocks.json").exists()
    assert everything(index) == found
    assert Index(index).key == key
    last = Index(index).manifest.history[-1]
    assert (last.what, last.source) == ("repair", "")  # no part was made again


def damage(index: Path, *patterns: str) -> None:
    for pattern in patterns:
        (file,) = index.glob(f"v*/{pattern}")
        file.write_bytes(file.read_bytes()[:-1])


def test_the_lexical_part_is_made_again_from_the_passages(tmp_path: Path) -> None:
    build_index(passages(60), tmp_path, source="a", encoder=WordEncoder())
    whole = everything(tmp_path)
    for pattern in ("bm25/*.idx", "bm25/meta.json"):
        damage(tmp_path, pattern)
        with pytest.raises(FormatError, match="jpr doctor"):
            Index(tmp_path)
        assert "bm25" in repair(IndexOptions(tmp_path, ""))
        assert everything(tmp_path) == whole
    assert len(list(tmp_path.glob("v*"))) == 1


def test_a_lost_file_of_a_lexical_index_that_was_changed(tmp_path: Path) -> None:
    build_index(passages(60), tmp_path, source="a")
    remove_from_index(["id 0 7", "id 0 9"], tmp_path)
    add_to_index(passages(5, seed=1), tmp_path, source="b")
    index = Index(tmp_path)
    found = {row for row, _ in index.search_bm25("river castle", 99)}
    for file in (tmp_path / "v3" / "bm25").glob("*.term"):
        file.unlink()
    repair(IndexOptions(tmp_path, ""))
    index = Index(tmp_path)
    assert {row for row, _ in index.search_bm25("river castle", 99)} == found
    assert index.manifest.passages == 63


@pytest.mark.parametrize("command", [False, True])
def test_vectors_are_made_again_by_the_encoder_or_from_a_folder(
    tmp_path: Path, given: Path, *, command: bool
) -> None:
    index, corpus, vectors = tmp_path / "index", given / "corpus.jsonl", tmp_path / "vectors"
    encoder = ["--encoder", given / "encoder"]
    run_jpr("index", corpus, "--vectors", vectors, "--out", index, *encoder)
    whole = dense_file(index).read_bytes()
    damage(index, "vectors/vectors.faiss")
    if command:
        run_jpr("index", "--out", index, "--set", "repair=true")
    else:
        run_jpr("index", "--out", index, "--set", "repair=true", "--vectors", vectors)
    assert dense_file(index).read_bytes() == whole
    assert json.loads(run_jpr("doctor", index, "--json"))["encoder"]["found"] is True
    assert sorted(path.name for path in index.iterdir()) == ["CURRENT", "lock", "v2"]


def test_what_cannot_be_made_again_stays_as_it_is(tmp_path: Path, given: Path) -> None:
    index, encoder = tmp_path / "index", tmp_path / "encoder"
    shutil.copytree(given / "encoder", encoder)
    run_jpr("index", given / "corpus.jsonl", "--out", index, "--encoder", encoder)
    damage(index, "vectors/vectors.faiss")
    repair_it = ["index", "--out", index, "--set", "repair=true"]
    encoder.rename(tmp_path / "moved")
    assert str(encoder) in refused(*repair_it)
    assert "encoder" in refused(*repair_it, "--encoder", "none")
    vectors_for(passages(3), WordEncoder(), tmp_path / "vectors")
    assert "vectors of encoder words" in refused(
        *repair_it, "--encoder", tmp_path / "moved", "--vectors", tmp_path / "vectors"
    )
    damage(index, "store/keys.npy")
    assert "store/keys.npy" in refused(*repair_it, "--encoder", tmp_path / "moved")
    assert (index / "CURRENT").read_text() == "v1\n"
    assert sorted(path.name for path in index.glob("v*")) == ["v1"]
    assert "no index here" in refused("index", "--out", tmp_path / "no", "--set", "repair=true")
    assert "repair" in refused("index", given / "corpus.jsonl", *repair_it[1:])


def test_a_copy_made_during_changes_is_whole_or_refused(tmp_path: Path) -> None:
    index = tmp_path / "index"
    build_index(passages(30), index, source="a", encoder=WordEncoder())
    done, ends = Event(), Counter[str]()

    def change() -> None:
        for seed in range(1, 12):
            more = passages(3, seed=seed)
            add_to_index(more, index, source="b", encoder=WordEncoder())
        done.set()

    with ThreadPoolExecutor(1) as pool:
        changes = pool.submit(change)
        while not done.is_set() and not changes.done():
            copy = tmp_path / f"copy {ends.total()}"
            with suppress(OSError):  # as cp: the rest is copied
                shutil.copytree(index, copy)
            try:
                found = Index(copy)
                assert len(list(found.store)) == found.manifest.passages
                everything(copy)
                ends["whole"] += 1
            except FormatError:
                ends["refused"] += 1
        changes.result()
    assert ends["whole"]
    assert Index(index).manifest.passages == 63


@pytest.mark.skipif(not shutil.which("flock"), reason="there is no flock here")
def test_who_copies_with_the_lock_keeps_writers_away(tmp_path: Path) -> None:
    """As `flock index/lock cp -a index backup` does."""
    build_index(passages(30), tmp_path, source="a")
    command = ["flock", str(tmp_path / "lock"), "cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as copying:
        assert copying.stdin
        assert copying.stdout
        copying.stdin.write(b"locked\n")
        copying.stdin.flush()
        assert copying.stdout.readline() == b"locked\n"
        with pytest.raises(ConfigError, match="another process"):
            remove_from_index(["id 0 7"], tmp_path)
        assert Index(tmp_path).manifest.passages == 30  # readers need no lock
    remove_from_index(["id 0 7"], tmp_path)
