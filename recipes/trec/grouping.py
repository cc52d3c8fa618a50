"""CuratedTREC's regular expressions turned into distinct answers (paper, "Data processing").

Each question's expression runs over title and text of every passage, as in DPR: Unicode NFD, any
case. A question is dropped if nothing matches, if more than 100 distinct strings do (the
expression is too permissive), if none of them has one to five tokens, or if the expression takes
too long on a text. Matches that are the same after normalization, white space aside, are one
answer. The work goes in chunks, whose results can be kept so that a killed run continues.
"""

import hashlib
import json
import multiprocessing
import os
import threading
import unicodedata
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path

import regex

from jpr.errors import ConfigError, FormatError
from jpr.formats.gold import json_rows
from jpr.io.atomic import publish
from jpr.stages import Progress
from jpr.text import answer_pattern, normalize_answer, tokens
from jpr.types import Passage, Question
from recipes.trec.required import squeezed
from recipes.trec.scan import Matches, Scanner

MOST_MATCHES = 100
MOST_TOKENS = 5
_CHUNK = 20_000
_CACHE_VERSION = "1"

_Found = dict[int, Matches]
"""Matches by the number of the pattern."""
_Task = Callable[[], _Found]


class Reason(StrEnum):
    """Why a question is dropped."""

    NO_MATCH = "nothing in the corpus matches"
    TOO_MANY = f"more than {MOST_MATCHES} distinct strings match"
    TOO_LONG = f"no match has 1 to {MOST_TOKENS} tokens"
    TIMED_OUT = "the expression takes too long on a text"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A question that has no answers by the paper's rules."""

    id: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Grouped:
    """Questions with their answers filled in, and those that were dropped."""

    questions: tuple[Question, ...]
    dropped: tuple[Dropped, ...]


def group_answers(
    questions: Sequence[Question],
    passages: Iterable[Passage],
    *,
    workers: int = 1,
    cache: Path | None = None,
    progress: Progress = lambda _: None,
    time_limit: float = 1.0,
) -> Grouped:
    """Fill in the distinct answers that the questions' expressions have in a corpus.

    Answers and their spellings are lower-cased and stand in the order of the corpus. `cache` is a
    folder for what is known of each chunk of passages; `progress` is called with the number of
    passages just done. An expression gets `time_limit` seconds per text. With more than one
    worker, a script must call this under `if __name__ == "__main__":`.
    """
    if workers < 1:
        raise ConfigError(f"workers must be at least 1, not {workers}")
    if not time_limit > 0:
        raise ConfigError(f"time_limit must be more than 0 seconds, not {time_limit}")
    sources = [answer_pattern(question).pattern for question in questions]
    patterns = tuple(sorted(set(sources)))
    found: defaultdict[str, Matches] = defaultdict(Matches)
    for n_passages, matches in _scan(patterns, passages, workers, cache, time_limit):
        for number, pattern in enumerate(patterns):
            if number in matches:
                found[pattern] = _merged(found[pattern], matches[number])
        progress(n_passages)
    return _grouped(questions, [found[source] for source in sources])


def _grouped(questions: Sequence[Question], found: Sequence[Matches]) -> Grouped:
    kept: list[Question] = []
    dropped: list[Dropped] = []
    for question, matches in zip(questions, found, strict=True):
        answers = answers_from_matches(matches.strings)
        reason = _reason(matches, answers)
        if reason:
            dropped.append(Dropped(question.id, reason))
        else:
            kept.append(replace(question, answers=answers))
    return Grouped(tuple(kept), tuple(dropped))


def _reason(matches: Matches, answers: tuple[tuple[str, ...], ...]) -> Reason | None:
    if matches.too_many:
        return Reason.TOO_MANY
    if matches.timed_out:
        return Reason.TIMED_OUT
    if not matches.strings:
        return Reason.NO_MATCH
    return None if answers else Reason.TOO_LONG


def answers_from_matches(matches: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    r"""Group the matches of one to five tokens into distinct answers with their spellings.

    >>> answers_from_matches(["Long Island", "new york", "long island", "NewYork"])
    (('long island',), ('new york', 'newyork'))
    """
    groups: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for match in matches:
        spelling = unicodedata.normalize("NFC", match).lower()
        if 1 <= len(tokens(spelling)) <= MOST_TOKENS:
            # "the" and "$" have no normal form: they stand for themselves
            key = squeezed(normalize_answer(spelling)) or squeezed(spelling)
            groups[key].setdefault(spelling)
    return tuple(tuple(spellings) for spellings in groups.values())


def _merged(before: Matches, new: Matches) -> Matches:
    """Add the matches of later texts, as if all texts had been gone through in one go."""
    if before.too_many or before.timed_out:
        return before
    strings = tuple(dict.fromkeys(before.strings + new.strings))
    if new.too_many or len(strings) > MOST_MATCHES:
        return Matches(too_many=True)
    return Matches(strings, timed_out=new.timed_out)


def _scan(
    patterns: tuple[str, ...],
    passages: Iterable[Passage],
    workers: int,
    cache: Path | None,
    time_limit: float,
) -> Iterator[tuple[int, _Found]]:
    """Yield each chunk's number of passages and what was found in it, in their order."""
    key = (_CACHE_VERSION, regex.__version__, str(MOST_MATCHES), str(time_limit), *patterns)
    folder = cache / _digest(key) if cache else None
    waiting: deque[tuple[int, _Task]] = deque()
    with _submitter(workers) as submit:
        for n_passages, texts in _chunks(passages):
            scan = partial(_scan_texts, patterns, time_limit, texts)
            path = folder / f"{_digest(texts)}.jsonl" if folder else None
            waiting.append((n_passages, _cached(path, scan, submit)))
            if len(waiting) > workers:
                n_passages, task = waiting.popleft()
                yield n_passages, task()
        for n_passages, task in waiting:
            yield n_passages, task()


def _chunks(passages: Iterable[Passage]) -> Iterator[tuple[int, list[str]]]:
    """Yield numbers of passages and their titles and texts, each string once."""
    rest = iter(passages)
    while chunk := list(islice(rest, _CHUNK)):
        both = (string for passage in chunk for string in (passage.title, passage.text))
        yield len(chunk), list(dict.fromkeys(both))


@contextmanager
def _submitter(workers: int) -> Iterator[Callable[[_Task], _Task]]:
    """Provide what takes a task to the worker processes and returns the wait for its result."""
    if workers == 1:
        yield lambda task: task
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_end_with_parent) as pool:
        try:
            yield lambda task: pool.submit(task).result
        finally:
            pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Let a worker end when the run is killed, instead of waiting for work for ever."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _scan_texts(patterns: tuple[str, ...], time_limit: float, texts: list[str]) -> _Found:
    return _scanner(patterns, time_limit).scan(texts)


@lru_cache(maxsize=1)
def _scanner(patterns: tuple[str, ...], time_limit: float) -> Scanner:
    """Make the scanner, in each worker process once."""
    return Scanner(patterns, most=MOST_MATCHES, time_limit=time_limit)


def _cached(path: Path | None, task: _Task, submit: Callable[[_Task], _Task]) -> _Task:
    """Submit a task unless its result is in the file; else put it there in the end."""
    if path is None:
        return submit(task)
    known = _load(path)
    if known is not None:
        return lambda: known
    result = submit(task)

    def saved() -> _Found:
        found = result()
        _save(path, found)
        return found

    return saved


def _digest(strings: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for string in strings:
        encoded = string.encode(errors="surrogatepass")
        digest.update(b"%d:" % len(encoded) + encoded)
    return digest.hexdigest()[:32]


def _save(path: Path, found: _Found) -> None:
    with publish(path) as stream:
        for number, matches in found.items():
            stream.write(json.dumps({"pattern": number, **asdict(matches)}) + "\n")


def _load(path: Path) -> _Found | None:
    """Read what `_save` wrote; None if it is not there or damaged, to be made again."""
    if not path.exists():
        return None
    try:
        return {
            row.field("pattern", int): Matches(
                tuple(map(str, row.field("strings", list))),
                row.field("too_many", bool),
                row.field("timed_out", bool),
            )
            for row in json_rows(path)
        }
    except FormatError:
        return None
