import json
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from typing_extensions import TypeAliasType

from jpr.errors import ConfigError, DataError, FormatError
from jpr.train.pack import TYPES, Pack, vocabulary_sha256, write_pack
from tests.train.tiny import invented_pack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_pack(tmp_path / "pack", invented_pack())
    return tmp_path / "pack"


def assert_same(one: Pack, other: Pack) -> None:
    for field in fields(Pack):
        if field.name in TYPES:
            assert np.array_equal(getattr(one, field.name), getattr(other, field.name)), field.name
    ours, theirs = (np.concatenate(pack.passage_tokens) for pack in (one, other))
    assert np.array_equal(ours, theirs)
    assert one.question_ids == other.question_ids


def test_what_is_written_is_opened_and_mapped(folder: Path) -> None:
    opened = Pack.open(folder, verify=True)
    assert_same(opened, invented_pack())
    assert isinstance(opened.candidates, np.memmap)
    assert isinstance(opened.passage_tokens[0], np.memmap)
    assert len(opened) == 8
    assert opened.counts()["candidates"] == 48


def test_the_tokens_of_passages_are_cut_into_files_of_whole_passages(tmp_path: Path) -> None:
    mebi = 1 << 19  # tokens in a MiB
    lengths = np.array([mebi // 2, 0, mebi // 3, mebi // 3, 2 * mebi, 7, 0])
    tokens = np.arange(lengths.sum()).astype(np.uint16)
    pack = Pack(
        question_tokens=np.empty(0, np.uint16),
        question_starts=np.zeros(1, np.int64),
        passage_tokens=(tokens[:1000], tokens[1000:]),
        passage_starts=np.append(0, lengths.cumsum()),
        title_lengths=np.zeros(len(lengths), np.uint8),
        candidates=np.empty(0, np.uint32),
        candidate_starts=np.zeros(1, np.int64),
        scores=np.empty(0, np.float16),
        cover_edges=np.empty(0, np.uint32),
        cover_answers=np.empty(0, np.uint16),
        span_covers=np.empty(0, np.uint32),
        span_offsets=np.empty(0, np.uint16),
        span_lengths=np.empty(0, np.uint8),
        n_answers=np.empty(0, np.uint16),
        sources=np.empty(0, np.uint8),
        question_ids=(),
        about={},
    )
    write_pack(tmp_path / "pack", pack, part_mb=1)
    opened = Pack.open(tmp_path / "pack")
    assert_same(opened, pack)
    # two passages in the first file, one in the second; the longest is alone, more than a file
    sizes = [mebi // 2 + mebi // 3, mebi // 3, 2 * mebi, 7]
    assert [len(part) for part in opened.passage_tokens] == sizes
    files = sorted((tmp_path / "pack").glob("passage_tokens-*"))
    assert [file.stat().st_size <= 1 << 20 for file in files] == [True, True, False, True]


def test_a_pack_takes_the_place_of_another_but_of_nothing_else(folder: Path) -> None:
    write_pack(folder, invented_pack(n=3))
    assert len(Pack.open(folder)) == 3
    assert [path.name for path in folder.parent.iterdir()] == ["pack"]  # nothing is left beside
    other = folder.with_name("other")
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match=r"other: .*not a pack"):
        write_pack(other, invented_pack())
    with pytest.raises(ConfigError, match=r"thesis\.txt: .*not a pack"):
        write_pack(other / "thesis.txt", invented_pack())


def edit_about(folder: Path, **changes: object) -> None:
    file = folder / "pack.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_a_pack_that_is_not_whole_is_refused(folder: Path) -> None:
    copy = folder.with_name("copy")

    def broken(name: str, content: bytes | None) -> str:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        if content is None:
            (copy / name).unlink()
        else:
            (copy / name).write_bytes(content)
        with pytest.raises(FormatError) as error:
            Pack.open(copy, verify=False)
        return str(error.value)

    whole = (folder / "sources.npy").read_bytes()
    assert "holds no pack.json; is it a pack?" in broken("pack.json", None)
    assert "does not describe a pack" in broken("pack.json", b"{}")
    assert "holds no JSON object" in broken("pack.json", b"[]")
    assert "JSON" in broken("pack.json", b"{")
    assert "cannot be mapped" in broken("sources.npy", None)
    assert "cannot be mapped" in broken("sources.npy", whole[:-3])
    assert "passage_tokens-000.npy: cannot be mapped" in broken("passage_tokens-000.npy", b"")
    floats = (folder / "scores.npy").read_bytes()
    assert "holds float16 of 1 dimensions, not of 1 and uint8" in broken("sources.npy", floats)
    shorter = (folder / "cover_answers.npy").read_bytes()
    assert "n_answers has the shape" in broken("n_answers.npy", shorter)
    assert "question_starts has the shape (9,), not (2,)" in broken("question_ids.json", b'["a"]')
    assert "span_lengths has the shape (8,)" in broken("span_lengths.npy", whole)


def test_a_pack_of_another_format_is_refused(folder: Path) -> None:
    for old in (1, 2):
        edit_about(folder, format=old)
        with pytest.raises(FormatError, match=f"format {old}, .* reads 3; .*jpr pack"):
            Pack.open(folder)


def test_other_bytes_are_seen_when_they_are_looked_at(folder: Path) -> None:
    path = folder / "passage_tokens-000.npy"
    flipped = bytearray(path.read_bytes())
    flipped[-1] ^= 1
    path.write_bytes(flipped)
    Pack.open(folder, verify=False)
    with pytest.raises(FormatError, match=r"tokens-000.npy: is damaged"):
        Pack.open(folder)


def test_counts_that_disagree_are_refused(folder: Path) -> None:
    edit_about(folder, counts={"questions": 9})
    with pytest.raises(FormatError, match=r"is damaged: .*holds"):
        Pack.open(folder, verify=False)
    with pytest.raises(FormatError, match=r"pack\.json: is damaged"):
        Pack.open(folder)


def test_starts_must_end_where_the_tokens_do() -> None:
    pack = invented_pack()
    values = {field.name: getattr(pack, field.name) for field in fields(Pack)}
    with pytest.raises(DataError, match="question_tokens are 15, but their starts end at 16"):
        Pack(**{**values, "question_tokens": pack.question_tokens[:-1]})


def test_a_span_belongs_to_a_cover() -> None:
    pack = invented_pack()
    values = {field.name: getattr(pack, field.name) for field in fields(Pack)}
    last = len(pack.cover_edges) - 1
    shorter = {name: values[name][:-1] for name in ("cover_edges", "cover_answers")}
    with pytest.raises(DataError, match=f"span_covers end at {last}, but {last} are covered"):
        Pack(**{**values, **shorter})


def test_a_vocabulary_is_named_by_its_words_in_any_order() -> None:
    assert vocabulary_sha256({"a": 0, "b": 1}) == vocabulary_sha256({"b": 1, "a": 0})
    assert vocabulary_sha256({"a": 0, "b": 1}) != vocabulary_sha256({"a": 1, "b": 0})


def test_the_types_of_arrays_are_those_of_the_fields() -> None:
    assert len(TYPES) == 14  # the tokens of passages, in several files, are not among them
    assert TYPES["question_tokens"] is np.uint16
    pack = invented_pack()
    assert all(getattr(pack, name).dtype == kind for name, kind in TYPES.items())


def test_element_types_are_known_of_either_kind_of_alias() -> None:
    """From numpy 2.5, `NDArray` is an alias that keeps its parameter; it can be a key too."""
    scalar = TypeVar("scalar", bound=np.generic)
    kept = TypeAliasType("kept", np.ndarray[Any, np.dtype[scalar]], type_params=(scalar,))
    assert {kept[np.uint16]: 1, kept[np.int64]: 2}[kept[np.int64]] == 2
