"""Published numbers: each a record in `results/`, from which the documentation's tables are made.

A recipe leaves two files: `NAME.jsonl`, a record per number, and `NAME.manifest.json`, what they
depend on. Numbers in documents come from nowhere else.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

from jpr.errors import DataError, FormatError
from jpr.evaluation.compare import Comparison
from jpr.evaluation.evaluation import ALL, MULTI, Evaluation, RunScores
from jpr.evaluation.measures import Measure
from jpr.evaluation.tables import markdown
from jpr.io.files import publish
from jpr.io.json_files import read_json

FIRST_STAGE, ORACLE = "first-stage", "oracle"
"""The systems between which rerankers can be."""


@dataclass(frozen=True, slots=True)
class Record:
    """One published number, in percent."""

    recipe: str
    system: str
    data: str
    measure: str
    slice: str
    k: int
    value: float
    low: float
    high: float
    n: int
    commit: str


def records_of(evaluation: Evaluation, recipe: str, data: str, commit: str) -> Iterator[Record]:
    """Turn an evaluation into records; each run is a system, and so is its best order."""
    for run in evaluation.runs:
        yield from _records(evaluation, run, (recipe, run.name, data), commit)
        if run.best:
            best = RunScores("", run.best.values)
            yield from _records(evaluation, best, (recipe, f"{run.name}, best order", data), commit)


def _records(
    evaluation: Evaluation, run: RunScores, labels: tuple[str, str, str], commit: str
) -> Iterator[Record]:
    for slice in (ALL, MULTI):
        scores = evaluation.scores(run, slice)
        for measure, score in zip(evaluation.measures, scores, strict=True):
            if not score.n:
                continue  # no question has several answers
            k = measure.k if isinstance(measure, Measure) else 0
            name = repr(measure).removesuffix(f"@{k}")
            value, low, high = (100 * x for x in (score.value, score.low, score.high))
            recipe, system, data = labels
            yield Record(recipe, system, data, name, slice, k, value, low, high, score.n, commit)


def comparison_row(data: str, found: Comparison, order: str = "own") -> dict[str, object]:
    """Return a paired test as manifests hold it, in percent; of runs in this order."""
    kept = ("run", "baseline", "measure", "slice", "n", "test")
    numbers = {name: round(100 * getattr(found, name), 4) for name in ("difference", "low", "high")}
    ps = {name: float(f"{getattr(found, name):.2g}") for name in ("p", "p_holm")}
    labels = {name: getattr(found, name) for name in kept}
    return {"data": data, "order": order, **labels, **numbers, **ps}


def save_records(
    folder: Path, recipe: str, records: Iterable[Record], manifest: Mapping[str, object]
) -> None:
    """Write a recipe's records and its manifest."""
    with publish(folder / f"{recipe}.jsonl") as stream:
        for record in records:
            stream.write(json.dumps(asdict(record)) + "\n")
    with publish(folder / f"{recipe}.manifest.json") as stream:
        stream.write(json.dumps(manifest, indent=1) + "\n")


def load_records(folder: Path) -> list[Record]:
    """Read all records of a results folder."""
    names = [field.name for field in fields(Record)]
    found = []
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: path.stem):
        for line, value in read_json(path):
            if not isinstance(value, dict) or sorted(value) != sorted(names):
                raise FormatError(path, line, f"a record has the keys {', '.join(names)}")
            found.append(Record(**value))
    return found


def results_page(folder: Path) -> str:
    """Return the Markdown page of all results, made from the records and manifests."""
    parts = [
        "# Results",
        "Made by `jpr report` from `results/`; do not edit. Cells are percentages, *all questions "
        "/ questions with several answers*, with the 95 % interval of the first in brackets.",
    ]
    for recipe, of_recipe in groupby(load_records(folder), key=lambda record: record.recipe):
        parts.append(f"## {recipe}")
        manifest = next(value for _, value in read_json(folder / f"{recipe}.manifest.json"))
        parts.append(f"{manifest['about']}\n\n    {manifest['command']}")
        for data, records in groupby(of_recipe, key=lambda record: record.data):
            parts.append(_table(data, list(records)))
        for data, file in manifest.get("figures", {}).items():
            parts.append(f"![{data}, by the number of answers](../results/{file})")
        if "tests" in manifest:
            parts.append(_tests(manifest["tests"], manifest.get("shown", _SHOWN)))
        versions = ", ".join(f"{name} {number}" for name, number in manifest["versions"].items())
        parts.append(
            f"Commit {manifest['commit']}; {versions}; {manifest['machine']}; "
            f"{manifest['seconds']} s."
        )
    return "\n\n".join(parts) + "\n"


def _table(data: str, records: Sequence[Record]) -> str:
    columns = list(dict.fromkeys((record.measure, record.k) for record in records))
    cells = {(r.system, r.measure, r.k, r.slice): r for r in records}
    headroom = _headroom(records)
    rows = []
    for system in _systems(records):
        row = [system]
        for measure, k in columns:
            everything = cells[system, measure, k, ALL]
            several = cells.get((system, measure, k, MULTI))
            multi = f"{several.value:.1f}" if several else "–"
            row.append(
                f"{everything.value:.1f} / {multi} ({everything.low:.1f}–{everything.high:.1f})"
            )
        rows.append([*row, headroom[system]] if headroom else row)
    sizes = {record.slice: record.n for record in records}
    header = ["system", *(f"{measure}@{k}" if k else measure for measure, k in columns)]
    header += ["of the headroom"] if headroom else []
    return (
        f"**{data}** (n = {sizes[ALL]:,}, several answers: {sizes.get(MULTI, 0):,})\n\n"
        + markdown(header, rows)
    )


def _systems(records: Sequence[Record]) -> list[str]:
    """Return the systems in the order of their records, the oracle last."""
    return sorted({record.system: None for record in records}, key=lambda name: name == ORACLE)


def _headroom(records: Sequence[Record]) -> dict[str, str]:
    """Return the share of the way from the first stage's MRecall@5 to the oracle's, by system."""
    means = {r.system: r.value for r in records if (r.measure, r.k, r.slice) == ("MRecall", 5, ALL)}
    if not means.keys() >= {FIRST_STAGE, ORACLE}:
        return {}
    least, room = means[FIRST_STAGE], means[ORACLE] - means[FIRST_STAGE]
    shares = {system: 100 * (value - least) / room for system, value in means.items() if room}
    return {system: f"{share:.1f} %" for system, share in shares.items()}


def summary(folder: Path, recipe: str = "joint") -> str:
    """Return the README's table: MRecall@5 of the main systems, by data."""
    kept = [
        record
        for record in load_records(folder)
        if (record.recipe, record.measure, record.k) == (recipe, "MRecall", 5)
    ]
    if not kept:
        raise DataError(f"{folder}: has no records of {recipe}; run its recipe")
    cells = {(record.system, record.data, record.slice): f"{record.value:.1f}" for record in kept}
    data = list(dict.fromkeys(record.data for record in kept))
    rows = [
        [system, *(" / ".join(cells[system, one, slice] for slice in (ALL, MULTI)) for one in data)]
        for system in _systems(kept)
    ]
    return markdown(["MRecall@5, all / several answers", *data], rows)


def _tests(tests: Sequence[Mapping[str, Any]], shown: Sequence[Sequence[str]]) -> str:
    """Return the paired tests of a manifest as a table: those of some (measure, order, slice)."""
    rows = [
        [
            test["data"],
            f"{test['run']} – {test['baseline']}",
            f"{test['measure']}{', best order' if test['order'] == 'best' else ''}",
            test["slice"],
            f"{test['difference']:+.1f} ({test['low']:+.1f} to {test['high']:+.1f})",
            f"{test['p_holm']:.2g}",
        ]
        for test in tests
        if [test["measure"], test["order"], test["slice"]] in shown
    ]
    header = ["data", "systems", "measure", "slice", "difference (95 %)", "p (Holm)"]
    return "Paired tests, question by question; the manifest has all of them:\n\n" + markdown(
        header, rows
    )


_SHOWN = [["Recall@100", "own", ALL], ["MRecall@5", "best", ALL], ["MRecall@10", "best", ALL]]
"""What is shown where a manifest does not say."""
