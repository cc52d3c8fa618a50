"""Spellings of one answer, as strings: equal forms, longer names, abbreviations."""

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from unicodedata import normalize

from jpr.text import fold

if TYPE_CHECKING:
    import regex

Words = tuple[str, ...]

# Accents are often left out. The marks of other scripts, and the breve of й, make another letter.
_ACCENTS = re.compile("(?<!и)[\u0300-\u036f]")
_POSSESSIVE = re.compile(r"(?<=[^\W\d_])['’]s\b", re.IGNORECASE)  # 1990's is not 1990
_ARTICLE = re.compile(r"\b(?:a|an|the)\s+(?=\S)")  # not of "hepatitis A" nor of "A. Smith"
_DIGIT = re.compile(r"\d")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d)")
_MONTH = (
    r"\b(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?<!\w)(\d{1,2})(?:st|nd|rd|th)?(?!\w)"
_DATE = re.compile(rf"{_DAY}\s+(?:of\s+)?{_MONTH}|{_MONTH}\s+(?:the\s+)?{_DAY}")
# Numbers with sign, fraction and decimals; words; signs, but only the punctuation of C++ and C#.
_TOKEN = (
    r"(?:(?<![^\s(])[-−])?(?:(?<![\p{L}.])\.)?\p{Nd}+(?:[./]\p{Nd}+)*"
    r"|[\p{L}\p{M}\p{Nl}\p{No}]+|[+#]|[^\p{L}\p{M}\p{N}\p{P}\p{Z}\p{C}$<=>^`|~]"
)

_OPTIONAL = frozenset(  # parts of a name that are left out before a surname: "van Gogh"
    """
    the de di da du del der den van von bin ibn sir dame dr prof professor president
    """.split()  # noqa: SIM905  a list literal would fill a page
)
_PLACES = frozenset(  # what makes another name of a place: "New York" is not a form of "York"
    """
    new north south east west northern southern eastern western northeast northwest southeast
    southwest central upper lower inner outer middle great greater little old latin american
    british french equatorial papua st saint san santa lake port fort cape gulf
    """.split()  # noqa: SIM905  a list literal would fill a page
)
_BETWEEN = re.compile(r"[\s.,–-]+")
_NOT_IN_INITIALS = frozenset(("", "the", "of", "and", "for", "in", "on", "at", "to", "de", "du"))
_INSIDE = re.compile(rf"['’-]|{_ACCENTS.pattern}")
_INITIAL_DOT = re.compile(r"(?<=\b\w)\.")  # other dots end a sentence, and names with it
_NAME = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_LONGEST = 80  # characters of a name or abbreviation
_CACHED = 1024  # texts: the answers to a question are compared more than once


@cache
def _token() -> "regex.Pattern[str]":
    import regex  # on first use, as in jpr.text

    return regex.compile(_TOKEN)


@lru_cache(maxsize=_CACHED)
def answer_form(text: str) -> str:
    """Return what spellings of one answer share: no case, accents, punctuation and articles.

    Nor do hyphens, spaces, the dots of abbreviations and a possessive 's count. A date begins with
    the day. Numbers stay apart: "1.5" is not "15", "1999–2003" not "19992003".

    >>> len({answer_form(text) for text in ("The U.S. Open", "US Open's", "us-open")})
    1
    >>> answer_form("José Martí, May 5th, 1,999") == answer_form("Jose Marti 5 May 1999")
    True
    """
    bare = fold(text)
    bare = _POSSESSIVE.sub("", bare if bare.isascii() else _ACCENTS.sub("", bare))
    if _DIGIT.search(bare):
        bare = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), bare)
        bare = _DATE.sub(lambda at: f"{at[1] or at[4]} {(at[2] or at[3])[:3]}", bare)
    words = _token().findall(_ARTICLE.sub("", bare).replace("−", "-"))
    form = "".join(f" {word} " if word[-1].isdecimal() else word for word in words)
    return form if form not in ("a", "an", "the") else ""


@lru_cache(maxsize=_CACHED)
def name_words(text: str) -> Words:
    """Return the words of a text that looks like a name, the surname last; () if it does not.

    >>> name_words("Dr. Frederick G. Banting"), name_words("van Gogh"), name_words("gold dollar")
    (('frederick', 'g', 'banting'), ('gogh',), ())
    """
    if len(text) > _LONGEST:
        return ()
    words = _INITIAL_DOT.sub(" ", _POSSESSIVE.sub("", normalize("NFC", text))).split()
    kept = [word for word in words[:-1] if word.lower().rstrip(".") not in _OPTIONAL] + words[-1:]
    if not all(word[0].isupper() and _NAME.fullmatch(word) for word in kept):
        return ()
    plain = tuple(_INSIDE.sub("", fold(word)) for word in kept)
    return plain if plain and len(plain[-1]) > 1 else ()


def is_longer_name(long: Words, short: Words) -> bool:
    """Return whether a name ends with another, or is another with initials spelled out or added.

    A middle initial may be left out, a middle name may not: John Quincy Adams and John Adams are
    two presidents. Initials are those of the first names, from the first on.

    >>> full = ("frederick", "grant", "banting")
    >>> shorter = [("banting",), ("grant", "banting"), ("f", "banting"), ("frederick", "banting")]
    >>> [is_longer_name(full, short) for short in shorter]
    [True, True, True, False]
    """
    given, said = long[:-1], short[:-1]
    if long[-1:] != short[-1:] or len(long) < len(short) or long == short:
        return False
    if _PLACES.intersection(given):
        return False
    if long[-len(short) :] == short:
        return True
    pairs = zip(given, said, strict=False)
    fits = all(part == whole or (len(part) == 1 and whole[0] == part) for whole, part in pairs)
    are_initials = (all(len(word) == 1 for word in some) for some in (said, given[len(said) :]))
    return fits and any(are_initials)


@lru_cache(maxsize=_CACHED)
def abbreviation(text: str) -> str:
    """Return a text that may be an abbreviation without its dots; "" if it may not.

    >>> abbreviation("the U.N."), abbreviation("Un")
    ('UN', '')
    """
    bare = text.removeprefix("the ").removeprefix("The ").removesuffix("'s").removesuffix("’s")
    letters = bare.replace(".", "").replace(" ", "")
    return letters if 1 < len(letters) <= _LONGEST and letters.isalpha() and bare.isupper() else ""


@lru_cache(maxsize=_CACHED)
def initials(text: str) -> str:
    """Return the initials of a text's words, "of" and the like left out.

    A word of capitals counts as a whole: "WWI" is not "World War II". A text in which only some
    words have capitals is more than the name, and has none.

    >>> [initials(text) for text in ("World War II", "Bank of England", "United Nations troops")]
    ['WWII', 'BE', '']
    """
    words = [] if len(text) > _LONGEST or abbreviation(text) else _BETWEEN.split(text)
    counted = [word for word in words if word.lower() not in _NOT_IN_INITIALS]
    capitals = sum(word[0].isupper() for word in counted)
    if len(counted) < 2 or capitals not in (0, len(counted)) or not all(map(str.isalpha, counted)):
        return ""
    return "".join(word if word.isupper() else word[0].upper() for word in counted)
