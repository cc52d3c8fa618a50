"""A reply as text: answers, passages with the answers marked, and the search tree.

A passage that adds no listed answer may add a less likely one, for which the model chose it; that
one is underlined. Piped text has no colors: **answers** and *less likely ones* have asterisks.

Every percentage is P(a) over all candidates, before any passage is chosen: the probability that the
answer is right. What each passage adds to its prefix, and the steps, are only in `--json`.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from math import exp, isfinite

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Span, Text
from rich.tree import Tree

from jpr.cli.output import count
from jpr.text import normalize_answer
from jpr.types import ExpectedAnswer, Passage, Prefix, Reply

_COLORS = ("green", "cyan", "magenta", "yellow", "blue", "red")  # colors of the answers, in turn
_LESS_LIKELY = "underline"
_SHOWN = 10  # answers in the list at the top
_CONTEXT = 140  # characters shown before and after an answer
_LEGEND = (
    "A percentage is the probability that an answer is right, given all {}. Less likely answers, "
    "and parts of other answers, appear only after “may add”."
)
_SPACES = re.compile(r"\s++")


def reply_parts(
    reply: Reply, independent: Reply | None, *, explain: bool
) -> Iterable[RenderableType]:
    """Yield what is shown, from top to bottom; `independent` is shown beside the reply."""
    candidates = f"{len(reply.candidates.hits)} candidates"
    yield Text(_flat(reply.question).strip(), "bold")
    nearest = "; the nearest passages:" if reply.ranking.hits else ""
    yield _answers(reply) if reply.answers else Text(f"  No answer found{nearest}", "dim")
    if not reply.ranking.hits:
        return
    if (more := len(reply.answers) - _SHOWN) > 0:
        yield Text(f"  … and {count(more, 'more answer')}; --json has all", "dim")
    if explain and reply.answers:
        yield Padding.indent(Text(_LEGEND.format(candidates), "dim"), 2)
    for at, passage in enumerate(hit.passage for hit in reply.ranking.hits):
        head = Text("\n").append(f"[{at + 1}] ", "dim").append(_title(passage), "bold")
        yield head.append(f"  {_source(passage)}", "dim")
        yield Padding.indent(_excerpt(passage.text, _marks(reply, at)), 4)
        if explain:
            yield Padding.indent(_adds(reply, at), 4)
    if independent:
        yield Text("\nChosen jointly and independently", "bold")
        yield Padding.indent(_side_by_side(reply, independent), 2)
    if reply.nodes:
        name = reply.decoder if reply.beta is None else f"{reply.decoder}, β = {reply.beta:g}"
        yield Text(f"\nSearch over {candidates} ({name})", "bold")
        yield Padding.indent(_tree(reply), 2)


def _style(answer: int) -> str:
    return f"bold {_COLORS[answer % len(_COLORS)]}"


def _flat(text: str) -> str:
    """Collapse white space and drop control characters."""
    return "".join(sign for sign in _SPACES.sub(" ", text) if sign.isprintable())


def _title(passage: Passage) -> str:
    return _flat(passage.title).strip() or "untitled"


def _source(passage: Passage) -> str:
    """Return the source of a passage: a file and its page, or its id."""
    file, page = passage.meta.get("file"), passage.meta.get("page")
    if not file:
        return _flat(passage.id)
    return _flat(f"{file}, page {page}" if page else str(file))


def _answers(reply: Reply) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 0, 0, 2))
    places = {hit.passage.id: at for at, hit in enumerate(reply.ranking.hits, start=1)}
    for at, answer in enumerate(reply.answers[:_SHOWN]):
        where = " ".join(f"[{places[one.passage.id]}]" for one in answer.support)
        chance = _percent(exp(answer.log_prob)) if isfinite(answer.log_prob) else ""
        table.add_row(Text(_flat(answer.text), _style(at)), Text(chance), Text(where, "dim"))
    return table


def _percent(probability: float) -> str:
    """Return a probability as a percentage.

    >>> _percent(0.004), _percent(0.2)
    ('<1%', '20%')
    """
    return "<1%" if probability < 0.01 else f"{probability:.0%}"


def _marks(reply: Reply, at: int) -> list[Span]:
    """Return the spans of answers in a passage, or of what it may add."""
    id = reply.ranking.hits[at].passage.id
    found = [
        Span(*span, _style(answer))
        for answer, listed in enumerate(reply.answers)
        for one in listed.support
        if one.passage.id == id
        for span in one.spans
    ]
    others = (span for one in _may_add(reply, at)[:1] for span in one.spans)
    return sorted(found or [Span(*span, _LESS_LIKELY) for span in others])


def _may_add(reply: Reply, at: int) -> list[ExpectedAnswer]:
    """Return less likely answers of a passage that adds no listed one.

    Of "Bayard" and "Hippolyte Bayard" only the first is kept, and none that contains an answer.
    """
    nodes = [node for node in reply.nodes if node.is_new]
    if reply.new_answers[at] or not nodes:
        return []
    answers = [f" {normalize_answer(answer.text)} " for answer in reply.answers]
    found: dict[str, ExpectedAnswer] = {}
    for one in nodes[at].expected:
        own = f" {normalize_answer(one.text)} "
        again = any(answer in own for answer in answers)
        again = again or any(own in other or other in own for other in found)
        if one.probability >= 0.02 and not again:
            found[own] = one
    return list(found.values())


def _excerpt(text: str, marks: Sequence[Span]) -> Text:
    """Return the text around the marks, or its beginning."""
    shown, end = Text(), 0
    for first, last in _windows(text, marks):
        shown.append(" … " if end else "… " if first else "")
        shown.append_text(_marked(text, (first, last), marks))
        end = last
    return shown.append(" …" if end < len(text.rstrip()) else "")


def _windows(text: str, marks: Sequence[Span]) -> list[tuple[int, int]]:
    """Return the spans to show, of whole words; marks are sorted.

    >>> _windows("one two", [])
    [(0, 7)]
    """
    windows: list[tuple[int, int]] = []
    for start, end in [mark[:2] for mark in marks] or [(0, _CONTEXT)]:
        first, last = max(0, start - _CONTEXT), min(len(text), end + _CONTEXT)
        first = text.find(" ", first, start) + 1 or start if first else 0
        last = max(text.rfind(" ", end, last), end) if last < len(text) else last
        if windows and first <= windows[-1][1] + 1:
            windows[-1] = (windows[-1][0], max(last, windows[-1][1]))
        else:
            windows.append((first, last))
    return windows


def _marked(text: str, window: tuple[int, int], marks: Sequence[Span]) -> Text:
    """Return part of a text with its marks; of overlapping ones, the first."""
    shown, (at, end) = Text(), window
    for mark in marks:
        if at <= mark.start and mark.end <= end:
            sign = "*" if mark.style == _LESS_LIKELY else "**"
            sign = "" if sys.stdout.isatty() else sign
            shown.append(_flat(text[at : mark.start]))
            shown.append(f"{sign}{_flat(text[mark.start : mark.end])}{sign}", mark.style)
            at = mark.end
    return shown.append(_flat(text[at:end]))


def _adds(reply: Reply, at: int) -> Text:
    """Return what a passage adds to earlier ones, may add, and repeats."""
    new = reply.new_answers[at]
    old = [reply.answers[a].text for a in reply.contained[at] if reply.answers[a].text not in new]
    perhaps = [f"{_flat(one.text)} ({_percent(one.overall)})" for one in _may_add(reply, at)[:2]]
    line = Text("", "italic")
    if new:
        line.append("adds ").append(", ".join(map(_flat, new)), "bold")
    else:
        line.append(f"may add {' or '.join(perhaps)}" if perhaps else "adds no answer")
    return line.append(f"; repeats {', '.join(old)}", "dim") if old else line


def _tree(reply: Reply) -> Tree:
    """Return the search tree: below a passage is what was chosen after it."""
    branches: dict[Prefix, Tree] = {(): Tree(Text("question"), guide_style="dim")}
    chosen = {hit.passage.id: at for at, hit in enumerate(reply.ranking.hits)}
    for node in reply.nodes:
        passage = reply.candidates.hits[node.passage].passage
        at = chosen[passage.id]
        label = Text().append(f"[{at + 1}] ", "dim")
        if node.is_new:
            label.append_text(_cell(reply, at, repeats=False))
        else:
            label.append(_title(passage)).append("  repeated", "dim")
        branches[(*node.prefix, node.passage)] = branches[node.prefix].add(label)
    return branches[()]


def _side_by_side(reply: Reply, independent: Reply) -> Table:
    table, both = Table("", box=None, pad_edge=False), (reply, independent)
    for name, one in zip(("jointly", "independently"), both, strict=True):
        n = len({answer for held in one.contained for answer in held})
        table.add_column(f"{name}: {count(n, 'answer')}")
    for at in range(max(len(one.ranking.hits) for one in both)):
        cells = (_cell(one, at) if at < len(one.ranking.hits) else "" for one in both)
        table.add_row(Text(f"{at + 1}", "dim"), *cells)
    return table


def _cell(reply: Reply, at: int, *, repeats: bool = True) -> Text:
    """Return a title with the answers: + is new, = is repeated, ? may be added."""
    shown = Text(_title(reply.ranking.hits[at].passage))
    for answer in reply.contained[at]:
        text = reply.answers[answer].text
        if text in reply.new_answers[at]:
            shown.append("  + ", "dim").append(_flat(text), _style(answer))
        elif repeats:
            shown.append(f"  = {_flat(text)}", "dim")
    for one in _may_add(reply, at)[:1]:
        shown.append("  ? ", "dim").append(_flat(one.text), _LESS_LIKELY)
    return shown
