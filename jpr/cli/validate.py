"""`jpr validate`: what a file is and what is wrong with it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jpr.cli import screen
from jpr.cli.inputs import naming
from jpr.errors import FormatError

if TYPE_CHECKING:
    from jpr.formats.runs.trec import Judgement
    from jpr.types import Passage, Prediction, Question, Ranking

NAME = "validate"
HELP = """Say what a file is, what it holds, and what is wrong.

The whole file is read. The first thing that makes it unreadable is named with its line (exit code
2); what is readable but odd (questions without answers, empty passages) is counted.

Example: jpr validate run.jsonl
"""


def run(
    file: Annotated[Path, typer.Argument(help="File or folder to look at.")],
    origin: Annotated[str | None, typer.Option("--from", help="Read it as this format.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Read the whole file and print what is in it."""
    from jpr.cli.kinds import recognise

    kind, format = recognise(file, origin)
    try:
        with naming(file), screen.progress("reading", None) as progress:
            facts = _COUNTERS[kind.name](screen.counted(kind.read(file, format.name), progress))
    except FormatError as error:
        raise FormatError(
            error.path, error.line, f"(read as {format.name}, {kind.name}) {error.problem}"
        ) from error
    if as_json:
        known = {"file": str(file), "kind": kind.name, "format": format.name}
        screen.say_json({**known, **facts})
        return
    screen.say(f"{file}: {kind.name}, format {format.name} ({format.about})")
    for name, value in facts.items():
        screen.say(f"  {name.replace('_', ' ')}: {value:,}")


Facts = dict[str, int | float]


def _passages(passages: "Iterable[Passage]") -> Facts:
    count = empty = words = longest = 0
    for passage in passages:
        size = len(passage.text.split())
        count += 1
        empty += not size
        words += size
        longest = max(longest, size)
    return {
        "passages": count,
        "without_text": empty,
        "mean_words": round(words / count, 1),
        "longest_words": longest,
    }


def _questions(questions: "Iterable[Question]") -> Facts:
    from jpr.text import pattern_source

    sizes = []
    for question in questions:
        if question.regex:
            pattern_source(question)  # which refuses one that is not valid
        sizes.append((len(question.answers), bool(question.regex), len(question.annotations)))
    return {
        "questions": len(sizes),
        "with_several_answers": sum(n > 1 for n, _, _ in sizes),
        "without_answer": sum(not n and not regex for n, regex, _ in sizes),
        "regular_expressions": sum(regex for _, regex, _ in sizes),
        "with_several_annotators": sum(a > 1 for _, _, a in sizes),
        "mean_answers": round(sum(n for n, _, _ in sizes) / len(sizes), 2),
    }


def _rankings(rankings: "Iterable[Ranking]") -> Facts:
    from jpr.evaluation.pool import is_flat
    from jpr.formats.runs.align import check_unique_passages

    lengths, bare, flat, answered = [], 0, 0, 0
    for ranking in rankings:
        check_unique_passages(ranking)
        lengths.append(len(ranking.hits))
        bare += sum(not hit.passage.text for hit in ranking.hits)
        flat += is_flat(ranking)
        answered += bool(ranking.question.answers)
    return {
        "rankings": len(lengths),
        "passages": sum(lengths),
        "shortest": min(lengths),
        "longest": max(lengths),
        "passages_without_text": bare,
        "questions_with_answers": answered,
        "rankings_of_mostly_equal_scores": flat,
    }


def _answers(predictions: "Iterable[Prediction]") -> Facts:
    sizes = [len(prediction.answers) for prediction in predictions]
    return {"questions": len(sizes), "answers": sum(sizes), "without_answer": sizes.count(0)}


def _judgements(judgements: "Iterable[Judgement]") -> Facts:
    known = list(judgements)
    return {
        "judgements": len(known),
        "relevant": sum(judgement.relevance > 0 for judgement in known),
        "questions": len({judgement.question_id for judgement in known}),
        "subtopics": len({(judgement.question_id, judgement.subtopic) for judgement in known}),
    }


_COUNTERS: dict[str, Callable[[Iterable[Any]], Facts]] = {
    "passages": _passages,
    "questions": _questions,
    "rankings": _rankings,
    "answers": _answers,
    "judgements": _judgements,
}
