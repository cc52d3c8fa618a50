import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.errors import DataError, FormatError
from jpr.formats.corpus.store import FILES, PassageStore, StoreWriter, Written
from jpr.types import Passage

TEXT = st.text(max_size=12)
PASSAGES = st.lists(
    st.builds(Passage, TEXT, TEXT, TEXT, st.dictionaries(TEXT, st.integers())),
    min_size=1,
    max_size=6,
    unique_by=lambda passage: passage.id,
)


def write_store(passages: Iterable[Passage], folder: Path) -> Written:
    with StoreWriter(folder) as writer:
        for passage in passages:
            writer.add(passage)
        return writer.close()


def stored(folder: Path, count: int) -> PassageStore:
    write_store((Passage(f"p{i}", f"Title {i}", f"text {i} " * 9) for i in range(count)), folder)
    return PassageStore(folder)


@given(PASSAGES)
def test_what_is_stored_is_found_by_row_and_by_id(
    tmp_path_factory: pytest.TempPathFactory, passages: list[Passage]
) -> None:
    folder = tmp_path_factory.mktemp("store")
    assert write_store(passages, folder).passages == len(passages)
    store = PassageStore(folder)
    assert list(store) == passages
    assert [store.row_of(passage.id) for passage in passages] == list(range(len(passages)))
    assert store.row_of("an id that is not there") is None


def test_the_hash_depends_on_every_field(tmp_path: Path) -> None:
    variants = [
        Passage("a", "b", "c"),
        Passage("ab", "", "c"),
        Passage("a", "bc", ""),
        Passage("a", "b", "c", {"source": "x"}),
    ]
    assert len({write_store([passage], tmp_path).sha256 for passage in variants}) == 4
    assert write_store(variants[:1], tmp_path) == write_store(variants[:1], tmp_path)


def changed(base: Path, folder: Path, added: list[Passage], removed: list[int]) -> PassageStore:
    """A store made from another."""
    folder.mkdir()
    writer = StoreWriter(folder, base)
    for passage in added:
        writer.add(passage)
    assert writer.close(removed).passages == len(added)
    return PassageStore(folder)


@given(PASSAGES, st.data())
def test_a_changed_store_holds_what_was_kept_and_added(
    tmp_path_factory: pytest.TempPathFactory, passages: list[Passage], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("store")
    first = data.draw(st.integers(1, len(passages)))
    removed = data.draw(st.sets(st.integers(0, first - 1), max_size=first - 1))
    (folder / "old").mkdir()
    write_store(passages[:first], folder / "old")
    before = {path.name: path.read_bytes() for path in (folder / "old").iterdir()}
    store = changed(folder / "old", folder / "new", passages[first:], sorted(removed))
    live = [row for row in range(len(passages)) if row not in removed]
    assert list(store) == [passages[row] for row in live]
    assert [store.row_of(passage.id) for passage in passages] == [
        row if row in live else None for row in range(len(passages))
    ]
    assert (len(store), store.end) == (len(live), len(passages))
    assert {path.name: path.read_bytes() for path in (folder / "old").iterdir()} == before


def test_a_changed_store_refuses_an_id_that_it_holds_and_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    stored(tmp_path / "old", 2)
    with pytest.raises(DataError, match="'p1' comes twice"):
        changed(tmp_path / "old", tmp_path / "a", [Passage("p1", "", "new")], [])
    assert changed(tmp_path / "old", tmp_path / "b", [Passage("p1", "", "new")], [1])[2].id == "p1"
    with pytest.raises(DataError, match="no passage would be left"):
        changed(tmp_path / "old", tmp_path / "c", [], [0, 1])


def test_a_passage_of_a_megabyte_and_ids_with_spaces(tmp_path: Path) -> None:
    large = Passage("with  two spaces\tand a tab", "", "word " * 200_000)
    write_store([large], tmp_path)
    assert PassageStore(tmp_path)[0] == large


def test_rows_outside_are_refused(tmp_path: Path) -> None:
    store = stored(tmp_path, 3)
    for row in (-1, 3):
        with pytest.raises(FormatError, match=f"row {row} of 3"):
            store[row]


def test_no_passage_and_a_repeated_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no passage"):
        write_store([], tmp_path)
    with pytest.raises(DataError, match="'a' comes twice"):
        write_store([Passage("a", "", "x"), Passage("b", "", ""), Passage("a", "", "y")], tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing_or_cut_short_is_noticed(tmp_path: Path, name: str) -> None:
    stored(tmp_path, 50)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match="build"):
        _ = PassageStore(tmp_path)[49]
    (tmp_path / name).unlink()
    with pytest.raises(FormatError, match="passage store"):
        PassageStore(tmp_path)


def test_threads_share_a_store(tmp_path: Path) -> None:
    store = stored(tmp_path, 200)
    wrong: list[int] = []

    def read() -> None:
        wrong.extend(row for row in range(200) if store[row].id != f"p{row}")

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
