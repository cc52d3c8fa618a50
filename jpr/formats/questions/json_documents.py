"""Question sets that are one JSON document (docs/formats.md): QALD-9, ASQA, WebQSP, MultiSpanQA.

Answers of one normalized form are one answer in all of them. The official F1 of WebQSP takes the
best parse, and ASQA scores every pair, so `annotations` keeps them and `answers` is their union.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from jpr.formats import gold
from jpr.formats.format import Format, Head, Located, is_record
from jpr.formats.gold import Aliases, Row, json_format, merged, united
from jpr.types import Question

_WIKIDATA = re.compile(r"wikidata\.org/.*Q\d+$")
_SPLITS = ("train", "dev")


def _list_format(
    name: str, key: str, **kinds: type
) -> Callable[[Callable[[Row], Question]], Format[Question]]:
    """Make a format of the questions that one JSON document lists under a key."""

    def sniff(head: Head) -> bool:
        return head.has(key) and (not kinds or head.first_of(key).has(**kinds))

    def rows(path: Path) -> Iterator[Row]:
        for whole in gold.json_documents(path):
            yield from whole.at(key).each("question")

    return json_format(name, sniff, rows=rows)


@_list_format("webqsp", "Questions")
def _webqsp(row: Row) -> Question:
    """WebQSP as published: one JSON document with Questions and their Parses."""
    parses = (merged(map(_argument, one.at("Answers").each())) for one in row.at("Parses").each())
    return Question(row.id("QuestionId"), row.text("RawQuestion"), *united(parses))


def _argument(row: Row) -> Aliases:
    kind = row.text("AnswerType")
    if kind not in ("Entity", "Value"):
        raise row.error(f"answer of type {kind!r}; known are Entity and Value")
    return row.at("EntityName" if kind == "Entity" else "AnswerArgument").aliases()


@_list_format("qald", "questions", question=list)
def _qald(row: Row) -> Question:
    """QALD-9: one JSON document of questions with SPARQL results."""
    wordings = row.at("question").each()
    english = next((one for one in wordings if one.text("language") == "en"), None)
    if english is None:
        raise row.error("there is no wording in English ('en'); remove the question or add one")
    answers = (answer for result in row.at("answers").each() for answer in _results(result))
    return Question(row.id("id"), english.text("string"), merged(answers))


def _results(row: Row) -> Iterator[Aliases]:
    if row.has("boolean"):
        yield ("yes",) if row.field("boolean", bool) else ("no",)
    if row.has("results") and row.at("results").has("bindings"):
        for binding in row.at("results").at("bindings").each():
            for variable in list(binding.record())[:1]:
                result = binding.at(variable)
                value = result.at("value").aliases()
                is_uri = result.text("type") == "uri"
                yield _resource_names(value[0] if value else "") if is_uri else value


def _resource_names(uri: str) -> Aliases:
    """Return the names of a resource.

    >>> _resource_names("http://dbpedia.org/resource/Mercury_(planet)")
    ('Mercury (planet)', 'Mercury')
    """
    if _WIKIDATA.search(uri):
        return ()
    _, resource, name = uri.partition("/resource/")  # AC/DC is a name with a slash
    last = name if resource else re.split("[/#]", uri)[-1]
    title = unquote(last).replace("_", " ").strip()
    bare = re.sub(r" \([^()]*\)$", "", title)
    return tuple(dict.fromkeys(filter(None, (title, bare))))


@_list_format("multispanqa", "data", question=list, context=list)
def _multispanqa(row: Row) -> Question:
    """MultiSpanQA: one JSON document of tokens with B/I/O labels."""
    spans = _spans(row) if row.has("label") else ()
    return Question(row.id("id"), " ".join(_strings(row, "question")), merged(spans))


def _spans(row: Row) -> Iterator[Aliases]:
    tokens, labels = _strings(row, "context"), _strings(row, "label")
    if len(tokens) != len(labels):
        raise row.error(f"{len(labels)} labels for {len(tokens)} tokens; each token needs one")
    for label in labels:
        if label not in ("B", "I", "O"):
            raise row.error(f"label {label!r}; known are B, I and O")
    for span in re.finditer("[BI]I*", "".join(labels)):
        yield (" ".join(tokens[span.start() : span.end()]),)


def _strings(row: Row, key: str) -> list[str]:
    values = row.field(key, list)
    if not all(isinstance(value, str) for value in values):
        raise row.error(f"{key!r} should be a list of strings only")
    return values


def _sniff_asqa(head: Head) -> bool:
    if not _has_splits(head.value):
        return head.has("ambiguous_question", "qa_pairs")
    records = (record for split in head.value.values() for record in split.values())
    return is_record(next(records, None), "ambiguous_question")


def _has_splits(value: object) -> bool:
    if not isinstance(value, dict) or not value:
        return False
    return all(name in _SPLITS and isinstance(split, dict) for name, split in value.items())


def _asqa_rows(split: str | None, path: Path) -> Iterator[Row]:
    for row in gold.json_rows(path):
        if not _has_splits(row.value):
            yield row
            continue
        whole, names = replace(row, line=0), " and ".join(row.value)
        if (split or names) not in row.value:
            lacking = f", not {split}" if split else ""
            raise whole.error(f"holds {names}{lacking}; choose asqa-train or asqa-dev (--from)")
        for record in whole.at(split or names).questions():
            yield replace(record, value={**record.record(), "sample_id": record.name})


def _read_asqa(split: str | None, path: Path) -> Located[Question]:
    for row in _asqa_rows(split, path):
        pairs = (pair.at("short_answers").aliases() for pair in row.at("qa_pairs").each())
        text = row.text("ambiguous_question")
        yield row.line, Question(row.id("sample_id"), text, *united([pairs]))


def _asqa_format(split: str) -> Format[Question]:
    about = f"the {split} split of an ASQA file with several"
    return Format(f"asqa-{split}", about, lambda _: False, partial(_read_asqa, split))


_asqa = Format(
    name="asqa",
    about="ASQA: one split as JSON, or JSON lines with sample_id",
    sniff=_sniff_asqa,
    read=partial(_read_asqa, None),
)
FORMATS = (_qald, _asqa, *map(_asqa_format, _SPLITS), _webqsp, _multispanqa)
