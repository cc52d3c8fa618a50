"""Regular expressions: those of the source, and those of the user, end in time on any text."""

import importlib
import pkgutil
import re
import time
import unicodedata
from importlib.util import find_spec
from pathlib import Path

import pytest
import regex

import jpr
from jpr import text
from jpr.text import AnswerMatcher, decomposed, fold, normalize_answer, tokens
from jpr.types import Passage, Question
from recipes.trec.grouping import group_answers

N = 15_000
LIMIT = 0.8
"""Seconds: what takes the square of the text's length takes far longer."""
PIECES = (
    *("a", " ", "\n", "\t", "é", "1", "_", "-", "=", "#", "'", '"', "[", "]", "(", ")", "{", "}"),
    *(
        "<",
        ">",
        "&",
        "&amp;",
        "&#",
        "[[",
        "]]",
        "{{",
        "}}",
        "{|",
        "|}",
        "<!--",
        "[](",
        "![a](b",
        "--",
    ),
    *(
        "a ",
        "a-",
        "x=",
        '""',
        "<a ",
        "<ref>",
        "http://",
        "$.",
        "\\",
        "a:",
        "1.",
        "__A",
        "# ",
        "\n#",
    ),
    *("---\n", "title:", ": ", " =", "=1 ", "é ", "a" * 299 + " ", "[a](", "(, ", "''"),
)
OPTIONAL = ("adapters", "kernels", "milvus", "mcp", "__main__")


def patterns() -> dict[str, "re.Pattern[str] | regex.Pattern[str]"]:
    """Return every expression that a module of ours has compiled, by module and name."""
    found = {}
    for module in pkgutil.walk_packages(jpr.__path__, "jpr."):
        if any(part in module.name for part in OPTIONAL) or "train" in module.name.split("."):
            continue
        held = vars(importlib.import_module(module.name))
        for name, value in held.items():
            if isinstance(value, re.Pattern | regex.Pattern) and isinstance(value.pattern, str):
                found[f"{module.name}.{name}"] = value
    for name in ("_TOKEN", "_WORD", "_MANY_MARKS", "_ARTICLES"):  # compiled when they are used
        found[f"jpr.text.{name}"] = text._compiled(getattr(text, name))
    return found


def test_ours_are_linear() -> None:
    found = patterns()
    assert len(found) > 30
    slow = []
    for name, pattern in found.items():
        module, _, own = name.rpartition(".")
        source = Path(str(importlib.import_module(module).__file__)).read_text(encoding="utf-8")
        searches = re.search(rf"\b{own}\)?\.(search|finditer|findall|subn?|split)\b", source)
        for piece in PIECES:
            hostile = piece * (N // len(piece)) + "\0"
            began = time.process_time()
            pattern.fullmatch(hostile)
            pattern.match(hostile)
            if searches:
                sum(1 for _ in pattern.finditer(hostile))
            if time.process_time() - began > LIMIT:
                slow.append((name, piece))
    assert not slow


@pytest.mark.parametrize("piece", ["a", "a ", "é", " ", "[", "\u0301\u0327", "\u0301\u0327a", "가"])
def test_matching_is_linear(piece: str) -> None:
    text = piece * (50_000 // len(piece))
    began = time.process_time()
    for act in (fold, tokens, normalize_answer):
        act(text)
    for answer in (text[:40], f"{text[:40]} b", text[:20_000] + " b"):
        matcher = AnswerMatcher(Question("1", "?", ((answer,),)))
        matcher.found_in(text[:1000], text + " b")
    assert time.process_time() - began < 5 * LIMIT


def test_marks_are_sorted_as_by_python_unless_there_are_too_many() -> None:
    for accented in ("e\u0323\u0301" * 1000, "e" + "\u0301\u0323" * 499 + "a" * 1500, "é" * 3000):
        assert decomposed(accented) == unicodedata.normalize("NFD", accented)
    assert sorted(decomposed("\u0301\u0323" * 5000)) == sorted("\u0301\u0323" * 5000)


@pytest.mark.parametrize("n", [3, 8, 9, 40])
def test_an_answer_of_many_words_is_found_as_one_of_few(n: int) -> None:
    words = [f"w{at}" for at in range(n)]
    matcher = AnswerMatcher(Question("1", "?", ((" ".join(words),),)))
    assert matcher.found_in("", f"So: {'  '.join(words).upper()}!") == (0,)
    assert matcher.found_in("", f"So: {' '.join(words)}x") == ()
    assert matcher.found_in("", " ".join(words[1:])) == ()


@pytest.mark.parametrize("bomb", [r"(a+)+$", r"(a|aa)+$", r"(.*a){20}b", r"^(a?){50}a{50}$"])
def test_an_expression_of_the_user_gets_its_time_and_no_more(bomb: str) -> None:
    question = Question("1", "?", regex=bomb)
    began = time.monotonic()
    matcher = AnswerMatcher(question, time_limit=0.1)
    for _ in range(5):
        matcher.found_in("", "a" * 100_000 + "!")
    group_answers([question], [Passage("1", "", "a" * 100_000 + "!")], time_limit=0.1)
    assert time.monotonic() - began < 15


def test_all_that_is_needed_is_here() -> None:
    assert all(map(find_spec, ("lxml", "pypdf", "docx")))
