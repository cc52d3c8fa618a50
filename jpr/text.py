"""The one definition of "this passage contains this answer".

An answer string is found in a text when its tokens stand in the text one after another, as in
DPR's and FiD's `has_answer`. Step by step, for text and answer alike:

1. Unicode NFD: é becomes e + combining accent, so both spellings of é agree;
2. lower case, and ς as σ (Greek writes a final sigma differently);
3. tokens: a run of letters, digits and combining marks, or any other visible character by itself.
   White space and control characters only separate; punctuation counts ("U.S." is not "US"),
   and so do articles ("the Who" is not "who").

So "art" is not found in "party", nor "9" in "1997". A title and a text are searched apart: no
answer spans both. An answer without a token is found nowhere.

`normalise_answer` is the other, looser convention (SQuAD's), by which generated answers are
compared with gold ones; passages are never searched by it.
"""

import string
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Literal

import regex

from jpr.errors import DataError
from jpr.types import Question

_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")
_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]")
_LONG = 2000
_MANY_MARKS = regex.compile(r"\p{M}{1000}")
_ARTICLES = regex.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)

WEAK = frozenset(
    """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
    hundred thousand million billion first second third once twice half
    a an the and or but nor so if as at by for from in into of off on onto out over per than to
    under up upon via with without about above after again against all also am any are be because
    been before being below between both can did do does doing down during each few had has have
    having he her here hers him his how i is it its just me more most my no not now only other our
    own same she some such that their them then there these they this those through too until very
    was we were what when where which while who whom why will would yes you your true false none
    """.split()  # noqa: SIM905  a list literal would fill a page
)
"""Words that say nothing when a passage holds them: what the strict mode ignores, with numerals."""


def fold(text: str) -> str:
    """Return the text with what matching does not distinguish made the same."""
    if text.isascii():
        return text.lower()
    return decomposed(text).lower().replace("ς", "σ")


def decomposed(text: str, form: Literal["NFD", "NFKD"] = "NFD") -> str:
    """Return a text in NFD.

    Python sorts the marks of a letter in the square of their number, so of a letter with more than
    a thousand, which no person wrote, they are sorted a thousand at a time.
    """
    if len(text) < _LONG or text.isascii():
        return unicodedata.normalize(form, text)
    ends = [found.end() for found in _MANY_MARKS.finditer(text)]
    pieces = (text[first:last] for first, last in pairwise((0, *ends, len(text))))
    return "".join(unicodedata.normalize(form, piece) for piece in pieces)


def tokens(text: str) -> list[str]:
    """Split a text into the tokens by which answers are found.

    >>> tokens("The U.S. won 9–2.")
    ['the', 'u', '.', 's', '.', 'won', '9', '–', '2', '.']
    """
    found: list[str] = _TOKEN.findall(fold(text))
    return found


def has_answer(text: str, answer: str) -> bool:
    """Tell whether the tokens of the answer stand in the text one after another.

    >>> has_answer("It stars Glenn\\nQuinn.", "glenn quinn"), has_answer("a party", "art")
    (True, False)
    """
    wanted = _spaced(answer)
    return wanted != "  " and wanted in _spaced(text)


def answer_spans(text: str, answer: str) -> list[tuple[int, int]]:
    """Return from where to where in a text the answer stands; nowhere where `has_answer` is False.

    >>> text = "Zoë\u0308's band, ZOË’S BAND."
    >>> [text[first:last] for first, last in answer_spans(text, "band")]
    ['band', 'BAND']
    """
    wanted = tokens(answer)
    folded, places = _folded_places(text)
    found = list(_TOKEN.finditer(folded))
    words, n = [match[0] for match in found], len(wanted)
    return [
        (places[found[at].start()], places[found[at + n - 1].end() - 1] + 1)
        for at in range(len(words) - n + 1 if n else 0)
        if words[at] == wanted[0] and words[at : at + n] == wanted
    ]


def _folded_places(text: str) -> tuple[str, Sequence[int]]:
    """Return a text folded, and of which character of the text each of its characters is."""
    if text.isascii():
        return text.lower(), range(len(text))
    # Sorted as NFD sorts them, marks of one letter may change places, never letters.
    parts = [fold(character) for character in text]
    places = [at for at, part in enumerate(parts) for _ in part]
    return fold(text), places


def _spaced(text: str) -> str:
    return _joined(tokens(text))


def _joined(words: list[str]) -> str:
    return f" {' '.join(words)} "


def normalise_answer(answer: str) -> str:
    """Return SQuAD's normal form: lower case, no punctuation, no articles, single spaces.

    >>> normalise_answer("The  Beatles!")
    'beatles'
    """
    bare = answer.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def is_weak(alias: str) -> bool:
    """Tell whether a string is a lone numeral or stop word, too common to prove an answer.

    >>> [is_weak(alias) for alias in ("one", "0", "No.", "no way", "Mary")]
    [True, True, True, False, False]
    """
    words = [token for token in tokens(alias) if token[0].isalnum()]
    return len(words) == 1 and (words[0].isnumeric() or words[0] in WEAK)


_FEW, _SHORT = 8, 100
"""How many words of an answer, of how many characters, are looked for one by one; with more, a text
that nearly holds them again and again would take for ever."""


class _Needle:
    """An answer's tokens, found in folded text without splitting the text: 20 times as fast."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self.longest = max(words, key=len)
        """What a text without it cannot hold the answer for: most are seen off by that alone."""

    def is_in(self, folded: str) -> bool:
        """Tell what `has_answer` tells, of a text that is folded already."""
        if self.longest not in folded:
            return False
        if len(self._words) > _FEW or len(self.longest) > _SHORT:
            return _joined(self._words) in _joined(_TOKEN.findall(folded))
        at = folded.find(self._words[0])
        while at >= 0:
            if self._stands_at(folded, at):
                return True
            at = folded.find(self._words[0], at + 1)
        return False

    def _stands_at(self, folded: str, at: int) -> bool:
        for word in self._words:
            at = _skip_separators(folded, at)
            end = at + len(word)
            if not folded.startswith(word, at):
                return False
            if _kind(word[0]) == "word" and (
                (at > 0 and _kind(folded[at - 1]) == "word")
                or (end < len(folded) and _kind(folded[end]) == "word")
            ):
                return False
            at = end
        return True


def _skip_separators(text: str, at: int) -> int:
    while at < len(text) and _kind(text[at]) == "separator":
        at += 1
    return at


@cache
def _kind(character: str) -> str:
    """Return what a character is to the tokenizer, by the same tables as its expression."""
    if _WORD.match(character):
        return "word"
    return "sign" if _TOKEN.match(character) else "separator"


class AnswerMatcher:
    """Finds the answers of one question in passages; built once, used on every candidate.

    >>> question = Question("1", "Mark on Roseanne?", (("Glenn Quinn",), ("Ames McNamara", "Ames")))
    >>> AnswerMatcher(question).found_in("Roseanne", "Ames played Mark in 2018.")
    (1,)
    """

    def __init__(
        self, question: Question, *, strict: bool = False, time_limit: float = 1.0
    ) -> None:
        """Prepare the answers; `strict` ignores lone numerals and stop words.

        A regular expression gets `time_limit` seconds per text; what it has not matched by then
        counts as not found, and `timed_out` says that this happened. After three such texts it
        is given up for the rest.
        """
        self._times_out = 0
        self._time_limit = time_limit
        self._pattern = (
            regex.compile(pattern_source(question), PATTERN_FLAGS)
            if question.regex and not question.answers
            else None
        )
        self._answers = [
            [
                _Needle(words)
                for alias in aliases
                if (words := tokens(alias)) and not (strict and is_weak(alias))
            ]
            for aliases in question.answers
        ]

    @property
    def timed_out(self) -> bool:
        """Whether the expression ran out of time on any text."""
        return self._times_out > 0

    @property
    def n_answers(self) -> int:
        """The number of distinct answers looked for."""
        return 1 if self._pattern else len(self._answers)

    def found_in(self, title: str, text: str) -> tuple[int, ...]:
        """Return the indexes of the answers that a passage's title or text contains."""
        if self._pattern:
            return (0,) if self._matches(title) or self._matches(text) else ()
        title, text = fold(title), fold(text)
        both, found = f"{title}\n{text}", []
        for answer, needles in enumerate(self._answers):
            for needle in needles:
                if needle.longest in both and (needle.is_in(text) or needle.is_in(title)):
                    found.append(answer)
                    break
        return tuple(found)

    def _matches(self, text: str) -> bool:
        assert self._pattern is not None
        if self._times_out >= _PATIENCE:
            return False
        try:
            found = self._pattern.search(
                decomposed(text), timeout=self._time_limit, concurrent=False
            )
        except TimeoutError:
            self._times_out += 1
            return False
        return found is not None


_PATIENCE = 3
"""Texts on which an expression may run out of time before it is given up."""
PATTERN_FLAGS = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE | regex.VERSION0


def pattern_source(question: Question) -> str:
    r"""Return a question's expression in NFD, as the texts are; refuse one that is not valid.

    A needless backslash goes first: the NFD of `\š` would be `\s` and a caron.
    """
    if not question.regex:
        raise DataError(f"question {question.id!r} has no regular expression to take answers from")
    bare = regex.sub(r"(\\[\x00-\x7f])|\\(?=[^\x00-\x7f])", r"\1", question.regex)
    source = unicodedata.normalize("NFD", bare)
    try:
        regex.compile(source, PATTERN_FLAGS)
    except (regex.error, RecursionError, OverflowError) as error:
        raise DataError(
            f"question {question.id!r}: {question.regex!r} is not a regular expression: {error}; "
            "correct it or leave the question out"
        ) from error
    return source
