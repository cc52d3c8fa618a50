"""A reply in a terminal: answers, passages with answers marked, and the tree of the search.

Answers are those that the reader is sure of. A passage that adds none of them may add another, less
likely one, which is why the model chose it: that one is marked otherwise. What is piped has neither
colours nor line breaks of its own: **answers** and *other ones* then stand between asterisks.

Every percentage is P(a), over all candidates and before anything is chosen, so that all can be
compared. P(a | prefix), by which passages are chosen, is large for the last answers that are left,
however unlikely: that and the probabilities of steps are in `--json` alone.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from math import exp, isfinite
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree as Drawing

from jpr.cli import screen
from jpr.decode import Node, Prefix
from jpr.reply import Reply
from jpr.rerank.explain import Added
from jpr.text import normalize_answer
from jpr.types import Passage

_COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red")
"""Of the answers, in turn."""
_AROUND = 140
"""Characters shown before and after an answer."""
_PERHAPS = 0.02
"""Answers that were less likely than this to come next are not mentioned."""
_MEANING = (
    "All that the {} candidates say makes 100%, and several good answers share it. Answers far "
    "below the first, or part of one, are not listed here; “may add” names them."
)
"""Of percentages, for who sees them first."""
_ENDLESS = 10_000
_SPACES = re.compile(r"\s++")


def draw(reply: Reply, alone: Reply | None, *, explain: bool) -> None:
    """Show a reply, and beside it the one with passages chosen one by one, where it is given."""
    console = Console(highlight=False)
    console.width = console.width if sys.stdout.isatty() else _ENDLESS
    with console.capture() as captured:  # written by us, since rich would make an end of `| head`
        for part in parts(reply, alone, explain=explain):
            console.print(part)
    lines = (line.rstrip() for line in captured.get().splitlines())
    screen.say("\n".join(lines).rstrip("\n"))


def parts(reply: Reply, alone: Reply | None, *, explain: bool) -> Iterable[RenderableType]:
    """Yield what is shown, from top to bottom."""
    yield Text(_flat(reply.question).strip(), "bold")
    yield _answers(reply)
    if not reply.ranking.hits:
        return
    if explain and reply.answers:
        meaning = _MEANING.format(len(reply.tree.candidates.hits))
        yield Padding(Text(meaning, "dim"), (0, 0, 0, 2))
    for at in range(len(reply.ranking.hits)):
        yield from _passage(reply, at, explain)
    if alone:
        yield Text("\nChosen together, and one by one", "bold")
        yield _beside(reply, alone)
    if reply.tree.nodes:
        yield Text(f"\n{_how(reply)}", "bold")
        yield Padding(_tree(reply), (0, 0, 0, 2))


def _style(answer: int) -> str:
    return f"bold {_COLOURS[answer % len(_COLOURS)]}"


def _flat(text: str) -> str:
    """Leave single spaces, and nothing that would move the cursor."""
    return "".join(sign for sign in _SPACES.sub(" ", text) if sign.isprintable())


def _title(passage: Passage) -> str:
    return _flat(passage.title).strip() or "untitled"


def _answers(reply: Reply) -> RenderableType:
    if not reply.answers:
        return Text("  no answer was found", "dim")
    table = Table(box=None, show_header=False, padding=(0, 0, 0, 2))
    places = {hit.passage.id: at for at, hit in enumerate(reply.ranking.hits, start=1)}
    for at, answer in enumerate(reply.answers):
        where = " ".join(f"[{places[one.passage.id]}]" for one in answer.support)
        chance = _percent(exp(answer.log_prob)) if isfinite(answer.log_prob) else ""
        table.add_row(Text(_flat(answer.text), _style(at)), Text(chance), Text(where, "dim"))
    return table


def _percent(probability: float) -> str:
    """Return a probability for the eye.

    >>> _percent(0.004), _percent(0.2)
    ('<1%', '20%')
    """
    return "<1%" if probability < 0.01 else f"{probability:.0%}"


def _passage(reply: Reply, at: int, explain: bool) -> Iterable[RenderableType]:
    passage = reply.ranking.hits[at].passage
    head = Text("\n").append(f"[{at + 1}] ", "dim").append(_title(passage), "bold")
    yield head.append(f"  {_source(passage)}", "dim")
    yield Padding(_excerpt(passage.text, _marks(reply, at)), (0, 0, 0, 4))
    if explain:
        yield Padding(_adds(reply, at), (0, 0, 0, 4))


def _source(passage: Passage) -> str:
    """Say where a passage is from: a file and its page, or its id."""
    file, page = passage.meta.get("file"), passage.meta.get("page")
    if not file:
        return _flat(passage.id)
    return _flat(f"{file}, page {page}" if page else str(file))


class Mark(NamedTuple):
    """A piece of a text that is marked: from where to where, in which style, by which signs."""

    start: int
    end: int
    style: str
    sign: str


def _marks(reply: Reply, at: int) -> list[Mark]:
    """Return where the answers are in a passage, else what it may add."""
    id = reply.ranking.hits[at].passage.id
    found = [
        Mark(*span, _style(answer), "**")
        for answer, told in enumerate(reply.answers)
        for one in told.support
        if one.passage.id == id
        for span in one.spans
    ]
    others = (span for one in _perhaps(reply, at)[:1] for span in one.spans)
    return sorted(found or [Mark(*span, "underline", "*") for span in others])


def _perhaps(reply: Reply, at: int) -> list[Added]:
    """Return what the model had in mind when it chose a passage that adds no answer.

    What contains an answer repeats it, and of "Bayard" and "Hippolyte Bayard" the first is enough.
    """
    choice = reply.tree.choice
    if reply.adds[at] or not choice.adds:
        return []
    nodes = [i for i, node in enumerate(choice.decoded.nodes) if node.is_new]
    answers = [f" {normalize_answer(answer.text)} " for answer in reply.answers]
    found: dict[str, Added] = {}
    for one in choice.adds[nodes[at]]:
        own = f" {normalize_answer(one.text)} "
        again = any(answer in own for answer in answers)
        again = again or any(own in other or other in own for other in found)
        if one.probability >= _PERHAPS and not again:
            found[own] = one
    return list(found.values())


def _excerpt(text: str, marks: Sequence[Mark]) -> Text:
    """Show what stands around the marks, or else how the text begins."""
    shown, end = Text(), 0
    for first, last in _windows(text, marks):
        shown.append(" … " if end else "… " if first else "")
        shown.append_text(_marked(text, (first, last), marks))
        end = last
    return shown.append(" …" if end < len(text.rstrip()) else "")


def _windows(text: str, marks: Sequence[Mark]) -> list[tuple[int, int]]:
    """Return from where to where a text is shown, whole words; marks are sorted.

    >>> _windows("one two", [])
    [(0, 7)]
    """
    windows: list[tuple[int, int]] = []
    for start, end in [mark[:2] for mark in marks] or [(0, _AROUND)]:
        first, last = max(0, start - _AROUND), min(len(text), end + _AROUND)
        first = text.find(" ", first, start) + 1 or start if first else 0
        last = max(text.rfind(" ", end, last), end) if last < len(text) else last
        if windows and first <= windows[-1][1] + 1:
            windows[-1] = (windows[-1][0], max(last, windows[-1][1]))
        else:
            windows.append((first, last))
    return windows


def _marked(text: str, window: tuple[int, int], marks: Sequence[Mark]) -> Text:
    """Return a piece of a text with its marks; of those that overlap, the first."""
    shown, (at, end) = Text(), window
    for mark in marks:
        if at <= mark.start and mark.end <= end:
            sign = "" if sys.stdout.isatty() else mark.sign
            shown.append(_flat(text[at : mark.start]))
            shown.append(f"{sign}{_flat(text[mark.start : mark.end])}{sign}", mark.style)
            at = mark.end
    return shown.append(_flat(text[at:end]))


def _adds(reply: Reply, at: int) -> Text:
    """Say what a passage adds to those before it, or may add, and what it only repeats."""
    new = reply.adds[at]
    old = [reply.answers[a].text for a in reply.holds[at] if reply.answers[a].text not in new]
    perhaps = [f"{_flat(one.text)} ({_percent(one.overall)})" for one in _perhaps(reply, at)[:2]]
    told = Text("", "italic")
    if new:
        told.append("adds ").append(", ".join(map(_flat, new)), "bold")
    else:
        told.append(f"may add {' or '.join(perhaps)}" if perhaps else "adds no answer")
    return told.append(f"; repeats {', '.join(old)}", "dim") if old else told


def _how(reply: Reply) -> str:
    tree = reply.tree
    name = tree.decoder if tree.beta is None else f"{tree.decoder}, β = {tree.beta:g}"
    return f"How they were chosen from {len(tree.candidates.hits)} ({name})"


def _tree(reply: Reply) -> Drawing:
    """Draw the search: below a passage stands what was chosen after it."""
    root = Drawing(Text("question"), guide_style="dim")
    drawn: dict[Prefix, Drawing] = {(): root}
    chosen = {hit.passage.id: at for at, hit in enumerate(reply.ranking.hits)}
    for node in reply.tree.nodes:
        passage = reply.tree.candidates.hits[node.passage].passage
        label = _label(reply, node, passage, chosen[passage.id])
        drawn[(*node.prefix, node.passage)] = drawn[node.prefix].add(label)
    return root


def _label(reply: Reply, node: Node, passage: Passage, at: int) -> Text:
    label = Text().append(f"[{at + 1}] ", "dim").append(_title(passage))
    if not node.is_new:
        return label.append("  again", "dim")
    for answer, told in enumerate(reply.answers):
        if told.text in reply.adds[at]:
            label.append("  + ", "dim").append(_flat(told.text), _style(answer))
    return _with_perhaps(label, reply, at)


def _beside(reply: Reply, alone: Reply) -> RenderableType:
    """Put two rankings side by side: + before an answer that is new there, = before one again.

    After ? stands what a passage may add.
    """
    heads = [_counted("together", reply), _counted("one by one", alone)]
    table = Table("", *heads, box=None, pad_edge=False)
    for at in range(max(len(one.ranking.hits) for one in (reply, alone))):
        table.add_row(Text(f"{at + 1}", "dim"), _cell(reply, at), _cell(alone, at))
    return Padding(table, (0, 0, 0, 2))


def _counted(name: str, reply: Reply) -> str:
    n = len({at for held in reply.holds for at in held})
    return f"{name}: {n} {'answer' if n == 1 else 'answers'}"


def _cell(reply: Reply, at: int) -> Text:
    if at >= len(reply.ranking.hits):
        return Text("")
    shown = Text(_title(reply.ranking.hits[at].passage))
    for answer in reply.holds[at]:
        text = reply.answers[answer].text
        is_new = text in reply.adds[at]
        shown.append("  + " if is_new else "  = ", "dim")
        shown.append(_flat(text), _style(answer) if is_new else "dim")
    return _with_perhaps(shown, reply, at)


def _with_perhaps(shown: Text, reply: Reply, at: int) -> Text:
    for one in _perhaps(reply, at)[:1]:
        shown.append("  ? ", "dim").append(_flat(one.text), "underline")
    return shown
