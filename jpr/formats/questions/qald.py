"""QALD-9: one JSON document of `questions` in several languages, answered by SPARQL results.

The English wording is the question; every binding is an answer by its first variable: a resource
by its name (underscores are spaces; without a closing "(…)" too), a literal as it is, a boolean
as yes or no. Equal names are one answer. A resource known by a Wikidata number only is dropped.
"""

import re
from collections.abc import Iterator
from itertools import islice
from urllib.parse import unquote

from jpr.formats.format import Format, Head
from jpr.formats.gold import Aliases, Row, merged
from jpr.formats.questions.rows import from_document
from jpr.types import Question

_WIKIDATA = re.compile(r"wikidata\.org/.*Q\d+$")


def _sniff(head: Head) -> bool:
    questions = head.value["questions"] if head.has("questions") else None
    if not isinstance(questions, list) or not questions or not isinstance(questions[0], dict):
        return False
    return isinstance(questions[0].get("question"), list)


def _question(row: Row) -> Question:
    answers = (answer for result in row.at("answers").each() for answer in _answers(result))
    return Question(row.id("id"), _english(row), merged(filter(None, answers)))


def _english(row: Row) -> str:
    for wording in row.at("question").each():
        if wording.text("language") == "en":
            return wording.text("string")
    raise row.error("there is no wording in English ('en'); remove the question or add one")


def _answers(row: Row) -> Iterator[Aliases]:
    if row.has("boolean"):
        yield ("yes",) if row.field("boolean", bool) else ("no",)
    if row.has("results") and row.at("results").has("bindings"):
        for binding in row.at("results").at("bindings").each():
            for _, value in islice(binding.items(), 1):
                yield _spellings(value)


def _spellings(row: Row) -> Aliases:
    value = row.at("value").aliases()
    return value if row.text("type") != "uri" else _names(value[0] if value else "")


def _names(uri: str) -> Aliases:
    """Return what a resource is called.

    >>> _names("http://dbpedia.org/resource/Mercury_(planet)")
    ('Mercury (planet)', 'Mercury')
    """
    if _WIKIDATA.search(uri):
        return ()
    _, resource, name = uri.partition("/resource/")  # AC/DC is a name with a slash
    last = name if resource else re.split("[/#]", uri)[-1]
    title = unquote(last).replace("_", " ").strip()
    bare = re.sub(r" \([^()]*\)$", "", title)
    return tuple(dict.fromkeys(filter(None, (title, bare))))


FORMAT = Format(
    "qald",
    "QALD-9: one JSON document of questions with SPARQL results",
    _sniff,
    from_document("questions", _question),
)
