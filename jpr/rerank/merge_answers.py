"""The answers to a question as a set: mentions in several passages and spellings are one answer.

Strings and positions decide, no model. Two answers are one

1. if they have the same form (`answer_form`): "José Martí" and "Jose Marti", "U.S." and "US",
   "1,000" and "1000", "May 5, 1999" and "5 May 1999";
2. if one is a shorter form of the other's name: "Banting", "F. Banting", "Frederick G. Banting";
3. if one is the abbreviation of the other: "UN" and "United Nations".

If a short spelling fits several answers, it is that of the one whose long spelling is in the same
passage; with none or more than one of these it is an answer of its own. Containment alone proves
nothing: "dollar" is not "Bahamian dollar", nor "1999" "1999–2003". Numbers must be the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isnan, log

from jpr.rerank.spellings import abbreviation, answer_form, initials, is_longer_name, name_words
from jpr.types import Answer, Passage, Support

_TITLE = ((-1, -1),)
"""Stands for the spans of an answer that is in the title alone."""


def merge_answers(answers: Iterable[Answer]) -> tuple[Answer, ...]:
    """Return one answer for all spellings of it, the most probable answer first.

    Its text is the most probable spelling, or a longer one at least half as probable; its support
    is that of all spellings, its probability that of the most probable. An article alone is no
    answer.

    >>> given = [Answer("Banting", -1.0), Answer("Charles Best", -1.1), Answer("F. Banting", -1.5)]
    >>> [(answer.text, answer.log_prob) for answer in merge_answers(given)]
    [('F. Banting', -1.0), ('Charles Best', -1.1)]
    """
    forms: dict[str, list[Answer]] = {}
    for answer in sorted(answers, key=_improbability):
        forms.setdefault(answer_form(answer.text), []).append(answer)
    forms.pop("", None)
    united = (_united(each, each[0]) for each in forms.values())
    merged = sorted(united, key=_improbability)
    while len(found := _Variants(merged).united()) < len(merged):  # until it changes nothing
        merged = found
    return tuple(merged)


def own_passages(answer: Answer, others: Iterable[Answer]) -> set[Passage]:
    """Return the passages that mention an answer outside all mentions of some others."""
    around: dict[Passage, list[tuple[int, int]]] = {}
    for one in (support for other in others for support in other.support):
        around.setdefault(one.passage, []).extend(one.spans or _TITLE)
    return {
        one.passage
        for one in answer.support
        for first, last in one.spans or _TITLE
        if not any(begin <= first and last <= end for begin, end in around.get(one.passage, ()))
    }


class _Variants:
    """Groups of answers of different forms, the most probable first, that are one answer."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = answers
        self._group = list(range(len(answers)))  # by answer; named by one of its members
        self._needed: set[int] = set()  # long spellings without which answers look the same
        self._parts: set[int] = set()  # short spellings that are only mentioned inside long ones
        texts = enumerate(one.text for one in answers)
        self._names = {at: name for at, text in texts if (name := name_words(text))}
        self._join_names()
        self._join_abbreviations()

    def _join_names(self) -> None:
        """Go from long to short: "F. Banting" joins a name before "Banting" joins both."""
        names = self._names
        same_surname: dict[str, list[int]] = {}
        for at, name in names.items():
            same_surname.setdefault(name[-1], []).append(at)
        for at in sorted(names, key=lambda at: -len("".join(names[at]))):
            name, others = names[at], same_surname[names[at][-1]]
            self._join(at, [other for other in others if names[other] == name][:1])
            self._join(at, [other for other in others if is_longer_name(names[other], name)])

    def _join_abbreviations(self) -> None:
        same_initials: dict[str, list[int]] = {}
        for at, one in enumerate(self._answers):
            same_initials.setdefault(initials(one.text), []).append(at)
        for at, one in enumerate(self._answers):
            if short := abbreviation(one.text):
                self._join(at, same_initials.get(short, ()))

    def _join(self, short: int, longer: Sequence[int]) -> None:
        """Let a short spelling and its group join the one group that it fits."""
        own, answer = self._group[short], self._answers[short]
        groups = {self._group[long] for long in longer}
        if own in groups:
            return
        if len(groups) > 1:
            self._needed.update(longer)
            alone = own_passages(answer, (self._answers[long] for long in longer))
            likelier = any(long < short for long in longer)
            if answer.support and likelier and not alone:
                self._parts.add(short)
            longer = [long for long in longer if self._is_near(long, answer, alone)]
            groups = {self._group[long] for long in longer}
        if len(groups) == 1:
            self._group = [min(groups) if one == own else one for one in self._group]

    def _is_near(self, long: int, short: Answer, passages: set[Passage]) -> bool:
        """Return whether a long spelling is in a short one's passages, and probable enough."""
        one = self._answers[long]
        is_probable = _improbability(one) <= _improbability(short) + log(2)
        return is_probable and not passages.isdisjoint(support.passage for support in one.support)

    def united(self) -> list[Answer]:
        """Return one answer for each group, without those that are only parts of others."""
        groups: dict[int, list[int]] = {}
        for at, group in enumerate(self._group):
            groups.setdefault(group, []).append(at)
        return [
            _united([self._answers[at] for at in group], self._shown(group))
            for group in groups.values()
            if not self._parts.issuperset(group)
        ]

    def _shown(self, group: Sequence[int]) -> Answer:
        """Return the longest spelling that is needed, or is probable enough."""
        half = _improbability(self._answers[group[0]]) + log(2)
        probable = [at for at in group if _improbability(self._answers[at]) <= half]
        shown = [at for at in group if at in self._needed] or probable
        return self._answers[max(shown, key=self._length)]

    def _length(self, at: int) -> int:
        """Return the letters of a spelling, without a "Dr." or "van"."""
        text = self._answers[at].text
        return len("".join(self._names.get(at, ())) or answer_form(text))


def _united(answers: Sequence[Answer], shown: Answer) -> Answer:
    """Return answers as one, written as one of them, with the support of all."""
    if len(answers) == 1:
        return shown
    spans: dict[Passage, set[tuple[int, int]]] = {}
    for one in (support for answer in (shown, *answers) for support in answer.support):
        spans.setdefault(one.passage, set()).update(one.spans)
    support = tuple(Support(passage, _outermost(own)) for passage, own in spans.items())
    return replace(shown, log_prob=max(one.log_prob for one in answers), support=support)


def _outermost(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sort the spans of an answer, without the surname inside a full name."""
    kept: list[tuple[int, int]] = []
    for first, last in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not kept or last > kept[-1][1]:
            kept.append((first, last))
    return tuple(kept)


def _improbability(answer: Answer) -> float:
    """Return what answers are sorted by; those without a probability keep their order."""
    return float("inf") if isnan(answer.log_prob) else -answer.log_prob
