"""`jpr validate`."""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jpr.cli import files, output
from jpr.cli.arguments import Arguments, Json, Origin, argument
from jpr.errors import ConfigError, FormatError
from jpr.formats.format import detect
from jpr.formats.runs.align import check_unique_passages
from jpr.text import answer_pattern
from jpr.types import Passage, Prediction, Question, Ranking

if TYPE_CHECKING:
    from jpr.formats.runs.trec import Judgement

Facts = dict[str, int | float]


class ValidateArguments(Arguments):
    file: Path | None = argument("File or folder to check.", default=None)
    from_: Origin = None
    json: Json = False

    def __post_init__(self) -> None:
        if self.file is None and self.from_ is not None:
            raise ConfigError("--from needs a file to check")


def run(options: ValidateArguments) -> None:
    """Check a file and count its records; without one, list the formats.

    The whole file is read. An error names the line (exit code 2); problems that do not stop
    reading, such as questions without answers or empty passages, are counted. Compressed files
    (gzip, xz, bzip2, zstd) are recognized even if the file name does not show it.

    Example: jpr validate run.jsonl
    Example: jpr validate --json
    """
    if options.file is None:
        _list_formats(options.json)
        return
    file, kinds = options.file, files.all_formats()
    format = detect(file, kinds, options.from_)
    kind = kinds[format]
    try:
        counted = output.counted("reading", kind.read(file, format.name))
        with files.naming(file), closing(counted):
            facts = _COUNTERS[kind.name](counted)
    except FormatError as error:
        problem = f"(read as {format.name}, {kind.name}) {error.problem}"
        raise FormatError(error.path, error.line, problem) from error
    if options.json:
        head = {"file": str(file), "kind": kind.name, "format": format.name}
        output.write_json({**head, **facts})
        return
    output.write(f"{file}: {kind.name}, format {format.name} ({format.about})")
    for name, value in facts.items():
        output.write(f"  {name.replace('_', ' ')}: {value:,}")


def _list_formats(as_json: bool) -> None:
    formats = files.all_formats().items()
    rows = [(one.name, kind.name, one.about, one.write is not None) for one, kind in formats]
    if as_json:
        names = ("format", "kind", "about", "write")
        output.write_json({"formats": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    header = ("format", "kind", "description", "written")
    cells = [(*texts, "yes" if is_written else "") for *texts, is_written in rows]
    output.write(output.table(header, cells, first_number=4, folded=2))


def _passages(passages: Iterable[Passage]) -> Facts:
    sizes = Counter(len(passage.text.split()) for passage in passages)
    return {
        "passages": sizes.total(),
        "without_text": sizes[0],
        "mean_words": round(sum(n * times for n, times in sizes.items()) / sizes.total(), 1),
        "longest_words": max(sizes),
    }


def _questions(questions: Iterable[Question]) -> Facts:
    sizes = []
    for question in questions:
        if question.regex:
            answer_pattern(question)  # raises an error if it is not valid
        sizes.append((len(question.answers), bool(question.regex), len(question.annotations)))
    return {
        "questions": len(sizes),
        "with_several_answers": sum(n > 1 for n, _, _ in sizes),
        "without_answer": sum(not n and not regex for n, regex, _ in sizes),
        "regular_expressions": sum(regex for _, regex, _ in sizes),
        "with_several_annotators": sum(a > 1 for _, _, a in sizes),
        "mean_answers": round(sum(n for n, _, _ in sizes) / len(sizes), 2),
    }


def _rankings(rankings: Iterable[Ranking]) -> Facts:
    from jpr.evaluation.pool import has_tied_scores

    lengths, bare, flat, answered = [], 0, 0, 0
    for ranking in rankings:
        check_unique_passages(ranking)
        lengths.append(len(ranking.hits))
        bare += sum(not hit.passage.text for hit in ranking.hits)
        flat += has_tied_scores(ranking)
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


def _answers(predictions: Iterable[Prediction]) -> Facts:
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
