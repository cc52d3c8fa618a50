import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.corpus.store import FILES, PassageStore, write_store
from jpr.errors import DataError, FormatError
from jpr.types import Passage

TEXT = st.text(max_size=12)
PASSAGES = st.lists(
    st.builds(Passage, TEXT, TEXT, TEXT, st.dictionaries(TEXT, st.integers())),
    min_size=1,
    max_size=6,
    unique_by=lambda passage: passage.id,
)


def stored(folder: Path, count: int) -> PassageStore:
    write_store((Passage(f"p{i}", f"Title {i}", f"text {i} " * 9) for i in range(count)), folder)
    return PassageStore(folder)


@given(PASSAGES)
def test_what_is_stored_is_found_by_row_and_by_id(
    tmp_path_factory: pytest.TempPathFactory, passages: list[Passage]
) -> None:
    folder = tmp_path_factory.mktemp("store")
    assert write_store(passages, folder) == len(passages)
    store = PassageStore(folder)
    assert list(store) == passages
    assert [store.row_of(passage.id) for passage in passages] == list(range(len(passages)))
    assert store.row_of("an id that is not there") is None


def test_a_passage_of_a_megabyte_and_ids_with_spaces(tmp_path: Path) -> None:
    large = Passage("with  two spaces\tand a tab", "", "word " * 200_000)
    write_store([large], tmp_path)
    assert PassageStore(tmp_path)[0] == large


def test_rows_outside_are_refused(tmp_path: Path) -> None:
    store = stored(tmp_path, 3)
    for row in (-1, 3):
        with pytest.raises(IndexError, match=f"row {row} of 3"):
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
    with pytest.raises(FormatError, match="is no whole passage store"):
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
