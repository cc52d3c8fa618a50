"""Lists that are cut between passages: those in which a candidate's list begins and continues.

The rule sees text alone. A passage ends in a list if the words before its end have several commas,
semicolons or line breaks in one sentence that does not end there; the next one continues it if
its first words have some, too. It does not say what the list is of, so it is read with the list's
first words, its `context`.
"""

import re
from dataclasses import replace
from functools import cache

from jpr.formats.corpus.store import PassageStore
from jpr.types import Hit, Passage, Ranking

_FIRST = 20  # candidates whose lists are completed
MOST_ADDED = 10
"""Passages added to the candidates of a question at most."""
_LONGEST = 8  # passages before and after a candidate in which its list is sought
_CONTEXT = 14  # words
_BEFORE, _AFTER = (30, 5), (20, 2)
"""Words before and after a cut, and how many of them end an item in a list."""
_ABBREVIATED = r"(?<!\b[A-Z])(?<!\b(?:Dr|Mr|Ms|St|Jr|Sr|No))(?<!\b(?:Mrs|Rev|Gen|Col))"
_NUMBER = r"(?<!\b\d)(?<!\b\d\d)"  # of an item
_QUOTE = r"[\"')\]”’]*"
_SENTENCE_END = re.compile(rf"{_ABBREVIATED}{_NUMBER}[.!?]{_QUOTE}\s+(?=[\"'(\[“‘]?[^\W_a-z])")
_END = re.compile(rf"[.!?]{_QUOTE}\s*$")
_MARKED = re.compile(r"\s*(?:[-*•–]|\d{1,3}[.)])\s")  # an item on a line of its own
_ITEM_END = re.compile(r"[,;|](?=\s|$)|\n")
_LAST_ITEM = re.compile(r"\s(?:and|or)\s")


def continues_list(before: str, after: str) -> bool:
    """Return whether a text is the next part of a list in which another text ends.

    >>> after = "Flora, Gwen, and Hanna. They won."
    >>> continues_list("The members were Ann, Bea, Cleo, Dora, Eve,", after)
    True
    >>> continues_list("The members were Ann, Bea, Cleo, Dora and Eve.", after)
    False
    """
    if _items(_last_words(before)) < _BEFORE[1]:
        return False  # as in most texts, whose sentences need not be found
    is_open = not _END.search(before) or _MARKED.match(after)
    sentence = after[: end.start()] if (end := _SENTENCE_END.search(after)) else after
    first = " ".join(sentence.split(" ")[: _AFTER[0]])
    in_list = _items(_last_words(_last_sentence(before))) >= _BEFORE[1]
    items = _items(first) + bool(_LAST_ITEM.search(first))
    return bool(is_open and in_list and items >= _AFTER[1])


def _items(text: str) -> int:
    return len(_ITEM_END.findall(text))


def _last_words(text: str) -> str:
    return " ".join(text.rsplit(" ", _BEFORE[0])[-_BEFORE[0] :])


def _last_sentence(text: str) -> str:
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    return text[ends[-1] :] if ends else text


def with_list_neighbors(store: PassageStore, ranking: Ranking) -> Ranking:
    """Return candidates with the passages in which lists of the first ones begin and continue.

    Those that continue a list have its first words as their context. A passage that is added comes
    after the candidate whose list it has a part of.
    """
    lists, known = _Lists(store), {hit.passage.id for hit in ranking.hits}
    most = len(known) + MOST_ADDED
    parts: dict[str, Passage] = {}
    hits: list[Hit] = []
    for place, hit in enumerate(ranking.hits):
        row = store.row_of(hit.passage.id) if place < _FIRST else None
        found = [] if row is None else lists.parts(row)
        parts |= {one.id: one for one in found}
        added = [one for one in found if one.id not in known][: most - len(known)]
        known |= {one.id for one in added}
        own = parts.get(hit.passage.id, hit.passage)
        hits += [replace(hit, passage=one) for one in (own, *added)]
    return Ranking(ranking.question, tuple(hits))


class _Lists:
    """The lists that are in several rows of a store."""

    def __init__(self, store: PassageStore) -> None:
        self._store, self._at = store, cache(store.__getitem__)
        self._is_continued = cache(self._is_cut_after)

    def parts(self, row: int) -> list[Passage]:
        """Return the passages of a list, if a row has one: its own, those after, those before."""
        first, last = self._first(row), row
        while last < row + _LONGEST and self._is_continued(last):
            last += 1
        rows = [*range(row, last + 1), *range(row - 1, first - 1, -1)]
        return [self._passage(one) for one in rows] if first < last else []

    def _passage(self, row: int) -> Passage:
        """Return the passage of a row, with its context if it continues a list."""
        first = self._first(row)
        words = _last_sentence(self._at(first).text).split()[:_CONTEXT]
        passage = self._at(row)
        return replace(passage, context=" ".join(words)) if first < row else passage

    def _first(self, row: int) -> int:
        """Return the row in which the list of a row begins."""
        first = row
        while first > max(row - _LONGEST, 0) and self._is_continued(first - 1):
            first -= 1
            if _last_sentence(self._at(first).text) != self._at(first).text:
                break
        return first

    def _is_cut_after(self, row: int) -> bool:
        """Return whether the next row is of the same document and continues a list."""
        if row + 1 >= self._store.end:
            return False
        before, after = self._at(row), self._at(row + 1)
        return (
            _are_neighbors(before, after)
            and continues_list(before.text, after.text)
            and self._store.row_of(after.id) == row + 1  # not removed
        )


def _are_neighbors(before: Passage, after: Passage) -> bool:
    """Return whether passages of successive rows may be of one text: a section, not two rows."""
    names = [one.id.rpartition("#") for one in (before, after)]
    (file, _, number), (other, _, next_number) = names
    numbered = file == other and number.isdecimal() and next_number == str(int(number) + 1)
    fields = [{**one.meta, "page": None} for one in (before, after)]
    is_titled = before.title == after.title != ""
    return is_titled and fields[0] == fields[1] and (numbered or not (file or other))
