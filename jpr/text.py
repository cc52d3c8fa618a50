"""The one definition of "this passage contains this answer".

A text contains an answer if it contains the answer's tokens in a row, as in DPR's and FiD's
`has_answer`. The steps, for text and answer alike:

1. Unicode NFD: é becomes e + combining accent, so both spellings of é agree;
2. lower case, and ς as σ (Greek writes a final sigma differently);
3. tokens: a run of letters, digits and combining marks, or any other single visible character.
   White space and control characters only separate; punctuation counts ("U.S." is not "US"),
   and so do articles ("the Who" is not "who").

So "party" does not contain "art", nor "1997" "9". Title and text are searched separately: no
answer spans both. An answer without a token is found nowhere.

`normalize_answer` is the other, looser convention (SQuAD's), for comparing generated answers with
gold ones; it is never used to search passages. The `regex` library is loaded on first use, because
training imports this module and does without it.
"""

import re
import string
import unicodedata
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from jpr.errors import DataError
from jpr.types import Question

if TYPE_CHECKING:
    import regex

_TOKEN = r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]"
_WORD = r"[\p{L}\p{N}\p{M}]"
_MANY_MARKS = r"\p{M}{1000}"
_ARTICLES = r"\b(a|an|the)\b"
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_SURROGATE = re.compile("[\ud800-\udfff]")

WEAK = frozenset(  # words too common to prove an answer; the strict mode ignores them, and numerals
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


@cache
def _compiled(pattern: str) -> "regex.Pattern[str]":
    import regex

    return regex.compile(pattern)


def without_surrogates(text: str) -> str:
    """Replace unpaired surrogates, which tokenizers and tantivy do not accept."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def fold(text: str) -> str:
    """Return the text in NFD and lower case."""
    if text.isascii():
        return text.lower()
    return decomposed(text).lower().replace("ς", "σ")


def decomposed(text: str, form: Literal["NFD", "NFKD"] = "NFD") -> str:
    """Return a text in NFD, or another form."""
    # Python needs quadratic time to sort the marks of a letter, so they are sorted a thousand at a
    # time; only hostile texts have more.
    if len(text) < 2000 or text.isascii():
        return unicodedata.normalize(form, text)
    ends = [found.end() for found in _compiled(_MANY_MARKS).finditer(text)]
    pieces = (text[first:last] for first, last in pairwise((0, *ends, len(text))))
    return "".join(unicodedata.normalize(form, piece) for piece in pieces)


def tokens(text: str) -> list[str]:
    """Split a text into tokens.

    >>> tokens("The U.S. won 9–2.")
    ['the', 'u', '.', 's', '.', 'won', '9', '–', '2', '.']
    """
    return list(_compiled(_TOKEN).findall(fold(text)))


def answer_spans(text: str, answer: str) -> list[tuple[int, int]]:
    """Return the (start, end) offsets of an answer in a text.

    >>> text = "Zoë\u0308's band, ZOË’S BAND."
    >>> [text[first:last] for first, last in answer_spans(text, "band")]
    ['band', 'BAND']
    """
    needle = tokens(answer)
    if text.isascii():
        folded, offsets = text.lower(), list(range(len(text)))
    else:  # NFD may reorder the marks of one letter, never letters
        folded = fold(text)
        offsets = [at for at, character in enumerate(text) for _ in fold(character)]
    found = list(_compiled(_TOKEN).finditer(folded))
    words, n = [match[0] for match in found], len(needle)
    return [
        (offsets[found[at].start()], offsets[found[at + n - 1].end() - 1] + 1)
        for at in range(len(words) - n + 1 if n else 0)
        if words[at] == needle[0] and words[at : at + n] == needle
    ]


def _joined(words: list[str]) -> str:
    return f" {' '.join(words)} "


def normalize_answer(answer: str) -> str:
    """Return SQuAD's normal form: lower case, no punctuation, no articles, single spaces.

    >>> normalize_answer("The  Beatles!")
    'beatles'
    """
    bare = answer.lower().translate(_PUNCTUATION)
    return " ".join(_compiled(_ARTICLES).sub(" ", bare).split())


def is_weak(alias: str) -> bool:
    """Return whether a string is a single numeral or stop word, too common to prove an answer.

    >>> [is_weak(alias) for alias in ("one", "0", "No.", "no way", "Mary")]
    [True, True, True, False, False]
    """
    words = [token for token in tokens(alias) if token[0].isalnum()]
    return len(words) == 1 and (words[0].isnumeric() or words[0] in WEAK)


# Words of an answer, and characters of a word, up to which texts are searched without splitting
# them; above, a text that nearly contains the answer many times would take quadratic time.
_FEW, _SHORT = 8, 100


class _Needle:
    """An answer's tokens, searched in folded text without splitting it: 20 times as fast."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self.longest = max(words, key=len)  # most texts are rejected because they lack it

    def is_in(self, folded: str) -> bool:
        if self.longest not in folded:
            return False
        if len(self._words) > _FEW or len(self.longest) > _SHORT:
            return _joined(self._words) in _joined(_compiled(_TOKEN).findall(folded))
        at = folded.find(self._words[0])
        while at >= 0 and not self._is_at(folded, at):
            at = folded.find(self._words[0], at + 1)
        return at >= 0

    def _is_at(self, folded: str, at: int) -> bool:
        for word in self._words:
            while at < len(folded) and _kind(folded[at]) == "separator":
                at += 1
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


@cache
def _kind(character: str) -> str:
    if _compiled(_WORD).match(character):
        return "word"
    return "sign" if _compiled(_TOKEN).match(character) else "separator"


class AnswerMatcher:
    """Finds the answers of one question in passages; built once, used on every candidate.

    >>> question = Question("1", "Mark on Roseanne?", (("Glenn Quinn",), ("Ames McNamara", "Ames")))
    >>> AnswerMatcher(question).found_in("Roseanne", "Ames played Mark in 2018.")
    (1,)
    """

    def __init__(
        self, question: Question, *, strict: bool = False, time_limit: float = 1.0
    ) -> None:
        """Prepare the answers; `strict` ignores single numerals and stop words.

        A regular expression gets `time_limit` seconds per text; after that it counts as not found
        and `timed_out` is set. After three such texts it is not tried again.
        """
        self._timeouts = 0
        self._time_limit = time_limit
        by_pattern = question.regex and not question.answers
        self._pattern = answer_pattern(question) if by_pattern else None
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
        return self._timeouts > 0

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
        if self._timeouts >= 3:
            return False
        search, limit = self._pattern.search, self._time_limit
        try:
            return search(decomposed(text), timeout=limit, concurrent=False) is not None
        except TimeoutError:
            self._timeouts += 1
            return False


def compile_pattern(source: str) -> "regex.Pattern[str]":
    """Compile an expression that answers match, with DPR's flags."""
    import regex

    flags = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE | regex.VERSION0
    return regex.compile(source, flags)


@lru_cache(maxsize=64)  # the passages of one question follow each other
def answer_pattern(question: Question) -> "regex.Pattern[str]":
    r"""Compile a question's expression in NFD, as the texts are; refuse one that is not valid.

    A needless backslash is removed first: the NFD of `\š` would be `\s` and a caron.
    """
    import regex

    if not question.regex:
        raise DataError(f"question {question.id!r} has no regular expression to take answers from")
    bare = regex.sub(r"(\\[\x00-\x7f])|\\(?=[^\x00-\x7f])", r"\1", question.regex)
    try:
        return compile_pattern(unicodedata.normalize("NFD", bare))
    except (regex.error, RecursionError, OverflowError) as error:
        problem = f"{question.regex!r} is not a regular expression: {error}"
        raise DataError(f"question {question.id!r}: {problem}; correct it or remove it") from error
