"""Lists that are cut between passages: the rule on texts by hand, and what it adds."""

from dataclasses import replace
from pathlib import Path

import pytest

from jpr.formats.corpus.store import PassageStore
from jpr.retrieve.index import Index, build_index, change_index
from jpr.retrieve.list_neighbors import MOST_ADDED, continues_list, with_list_neighbors
from jpr.retrieve.retrievers import open_retriever
from jpr.stages import ListRetriever
from jpr.types import Hit, Passage, Question, Ranking

NAMES = [f"{first} {last}" for last in ("Dahl", "Krag", "Juel") for first in ("Ann", "Bea", "Cleo",
         "Dora", "Eve", "Flora", "Gwen", "Hanna", "Ida", "Jane", "Kim", "Lea")]  # fmt: skip
INTRODUCED = "It was founded in 1890. Members of the rowing club since then were"
PROSE = ", ".join(NAMES[:12])
LINES, DOTTED = "\n- ".join(NAMES[:12]), ".\n- ".join(NAMES[:12])
NUMBERED = "; ".join(f"{at}. {name}" for at, name in enumerate(NAMES, 1))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{INTRODUCED} {PROSE},", "Ann Lund, Bea Lund and Cleo Lund. They meet on Fridays."),
        (f"{INTRODUCED} {PROSE}", "Lund, Bea Lund, Cleo Lund. They meet on Fridays."),  # in a name
        (f"{INTRODUCED} {PROSE.replace(',', ' (1901);')} (1902);", "Ann (1903); Bea (1904); Cleo."),
        (f"{INTRODUCED}:\n- {LINES}", "- Ann Lund\n- Bea Lund\n- Cleo Lund"),
        (f"{INTRODUCED}:\n- {DOTTED}.", "- Ann Lund.\n- Bea Lund.\n- Cleo Lund."),
        (f"{INTRODUCED}:\n{LINES.replace('- ', '')}", "Ann Lund\nBea Lund\nCleo Lund\n"),
        (f"{INTRODUCED} {PROSE.replace('Ann', 'A.').replace('Eve', 'Dr. E.')}", "Bo, Cy, and Di."),
        (f"{INTRODUCED} {NUMBERED};", "37. Ann Lund; 38. Bea Lund; 39. Cleo Lund."),
    ],
)  # fmt: skip
def test_a_list_is_continued(before: str, after: str) -> None:
    assert continues_list(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{INTRODUCED} {PROSE}.", "Ann Lund, Bea Lund and Cleo Lund, too, were there."),
        (
            f"{INTRODUCED} {PROSE}. Nowadays it is",
            "run by Ann Lund, Bea Lund, Cleo Lund and others.",
        ),
        (f"{INTRODUCED} {PROSE},", "and others. They meet on Fridays, Saturdays, and Sundays."),
        (f"{INTRODUCED} Ann, Bea, and Cleo,", "Dora, Eve, and Flora. They meet on Fridays."),
        ("In May, when it rains, as it often does, the club, alas,", "stays at home, for example."),
        (f"{INTRODUCED} {PROSE},", ""),
        ("", f"{PROSE}."),
        ("", ""),
    ],
)
def test_other_texts_do_not_continue_a_list(before: str, after: str) -> None:
    assert not continues_list(before, after)


LIST = [
    Passage("club.txt#3", "club", f"{INTRODUCED} {PROSE},", {"file": "club.txt"}),
    Passage("club.txt#4", "club", f"{', '.join(NAMES[12:24])},", {"file": "club.txt"}),
    Passage("club.txt#5", "club", f"{', '.join(NAMES[24:])}. It is a club.", {"file": "club.txt"}),
]
OTHERS = [
    Passage("club.txt#1", "club", "The club has a boat.", {"file": "club.txt"}),
    Passage("club.txt#2", "club", "The boat is blue, and new.", {"file": "club.txt"}),
    Passage("club.txt#6", "club", "It has rules.", {"file": "club.txt"}),
]
CONTEXT = "Members of the rowing club since then were Ann Dahl, Bea Dahl, Cleo Dahl,"


def store_of(folder: Path, passages: list[Passage]) -> PassageStore:
    build_index(passages, folder, source="test")
    return Index(folder).store


def completed(store: PassageStore, *passages: Passage) -> list[Passage]:
    hits = tuple(Hit(passage, -float(at)) for at, passage in enumerate(passages))
    found = with_list_neighbors(store, Ranking(Question("q", "Who?"), hits))
    return [hit.passage for hit in found.hits]


def test_all_passages_of_a_list_become_candidates(tmp_path: Path) -> None:
    store = store_of(tmp_path, [*OTHERS[:2], *LIST, OTHERS[2]])
    first, *others = LIST
    others = [replace(passage, context=CONTEXT) for passage in others]
    assert completed(store, first, OTHERS[0]) == [first, *others, OTHERS[0]]
    assert completed(store, OTHERS[0], LIST[1]) == [OTHERS[0], others[0], others[1], first]
    assert completed(store, LIST[2]) == [others[1], others[0], first]
    assert completed(store, LIST[2], first, LIST[1]) == [others[1], first, others[0]]
    assert completed(store, *OTHERS) == OTHERS
    assert completed(store) == []
    unknown = Passage("elsewhere", "club", PROSE)
    assert completed(store, unknown) == [unknown]


@pytest.mark.parametrize(
    "change",
    [
        {"id": "other.txt#4"},
        {"id": "club.txt#9"},
        {"id": "club"},
        {"title": "club: rules"},
        {"meta": {"file": "club.txt", "row": 4}},
        {"text": "It is a club."},
    ],
)
def test_another_text_is_not_the_next_part(tmp_path: Path, change: dict[str, object]) -> None:
    after = replace(LIST[1], **change)  # type: ignore[arg-type]  # as they are
    assert completed(store_of(tmp_path, [LIST[0], after]), LIST[0]) == [LIST[0]]


@pytest.mark.parametrize(
    "changes",
    [
        [{"meta": {"file": "a.pdf", "page": page}} for page in (1, 2)],
        [{"id": id} for id in ("71", "72")],  # as in Wikipedia, with the same title
    ],
)
def test_pages_and_numbered_passages_are_neighbors(
    tmp_path: Path, changes: list[dict[str, object]]
) -> None:
    pair = [replace(one, **change) for one, change in zip(LIST[:2], changes, strict=True)]  # type: ignore[arg-type]  # as they are
    found = completed(store_of(tmp_path, pair), pair[0])
    assert found == [pair[0], replace(pair[1], context=CONTEXT)]


def test_untitled_passages_are_no_neighbors(tmp_path: Path) -> None:
    pair = [replace(one, title="", id=id) for one, id in zip(LIST[:2], "12", strict=True)]
    assert completed(store_of(tmp_path, pair), pair[0]) == pair[:1]


def test_a_removed_passage_is_not_added(tmp_path: Path) -> None:
    store_of(tmp_path, [*LIST, OTHERS[2]])
    with change_index(tmp_path) as writer:
        writer.remove(LIST[1].id)
        writer.finish("remove", "test")
    assert completed(Index(tmp_path).store, LIST[0]) == LIST[:1]


def test_few_passages_are_added(tmp_path: Path) -> None:
    lists = [replace(one, id=f"{at}#{n}") for at in range(9) for n, one in enumerate(LIST)]
    found = completed(store_of(tmp_path, lists), *lists[::3])
    assert len(found) == 9 + MOST_ADDED
    assert [one.id for one in found[:4]] == ["0#0", "0#1", "0#2", "1#0"]
    assert [one.id for one in found[-3:]] == ["6#0", "7#0", "8#0"]


def test_only_lists_of_the_first_candidates_are_completed(tmp_path: Path) -> None:
    others = [Passage(f"other {n}", f"{n}", f"Other {n}.") for n in range(20)]
    store = store_of(tmp_path, [*others, *LIST])
    assert completed(store, *others, LIST[0]) == [*others, LIST[0]]
    first, second, third = (
        completed(store, *others[1:], LIST[0], LIST[1])[at] for at in (19, 20, 21)
    )
    assert [first, second.id, third.id] == [LIST[0], LIST[2].id, LIST[1].id]
    assert second.context == third.context == CONTEXT


def test_retrievers_over_an_index_know_what_comes_next(tmp_path: Path) -> None:
    store_of(tmp_path, [*OTHERS, *LIST])
    retriever = open_retriever(tmp_path)
    assert isinstance(retriever, ListRetriever)
    found = retriever.retrieve(Question("q", "founded in 1890"), 1)
    assert [hit.passage for hit in found.hits] == LIST[:1]
    assert len(retriever.with_list_neighbors(found).hits) == 3
    filtered = open_retriever(tmp_path, where={"file": ["club.txt"]})
    assert isinstance(filtered, ListRetriever)
    assert filtered.with_list_neighbors(found) == found
