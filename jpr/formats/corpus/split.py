"""Cut long texts into passages: 100 words as DPR does, or 288 wordpieces as the paper does.

Each passage is cut separately, so a piece never spans two articles. Pieces keep title and meta; the
id of piece i is `id#i`, or the passage's own if there is one piece.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tokenizers import Encoding, Tokenizer

from jpr.errors import ConfigError, DataError
from jpr.text import without_surrogates
from jpr.types import Passage

WORDPIECES = 140
"""Of a passage of a document, about a hundred words: with title and question it fits the models."""
_WORD, _NO_SPACE = re.compile(r"\S++"), re.compile(r"\S")


def split_words(passage: Passage, words: int = 100) -> Iterator[Passage]:
    """Cut a passage into disjoint windows of words; spacing becomes single spaces.

    >>> [piece.text for piece in split_words(Passage("7", "Bees", "bees make  honey"), words=2)]
    ['bees make', 'honey']
    """
    if words < 1:
        raise ConfigError(f"a piece needs at least one word, not {words}")
    found = passage.text.split()
    starts = range(0, len(found), words)
    return _pieces(passage, [" ".join(found[start : start + words]) for start in starts])


def _pieces(passage: Passage, texts: Sequence[str]) -> Iterator[Passage]:
    if len(texts) < 2:
        yield Passage(passage.id, passage.title, "".join(texts), passage.meta)
        return
    for number, text in enumerate(texts):
        yield Passage(f"{passage.id}#{number}", passage.title, text, passage.meta)


def split_wordpieces(passage: Passage, tokenizer: Tokenizer, limit: int = 288) -> Iterator[Passage]:
    """Cut a passage between words so that no piece has more wordpieces than `limit`.

    Special tokens do not count. A piece is a slice of the text without white space at its ends;
    only a word that alone exceeds the limit is cut inside.
    """
    if limit < 1:
        raise ConfigError(f"a piece needs at least one wordpiece, not {limit}")
    if tokenizer.truncation is not None or tokenizer.padding is not None:
        raise ConfigError("the tokenizer truncates or pads; open it with read_tokenizer")
    return _pieces(passage, list(_slices(passage, tokenizer, limit)))


def usual_cut(tokenizer: Tokenizer) -> Callable[[Passage], Iterator[Passage]]:
    """Return the cut of documents, into pieces that fit the models."""
    return partial(split_wordpieces, tokenizer=tokenizer, limit=WORDPIECES)


def _slices(passage: Passage, tokenizer: Tokenizer, limit: int) -> Iterator[str]:
    """Yield the pieces' texts. The whole text's wordpieces propose an end, the piece's decide."""
    text = passage.text
    token_ends = [end for _, end in _encode(text, tokenizer).offsets]
    word_ends = [word.end() for word in _WORD.finditer(text)]

    def reach(start: int, tokens: int) -> int:
        last = bisect_right(token_ends, start) + tokens - 1
        return token_ends[last] if last < len(token_ends) else len(text)

    end = 0
    while first := _NO_SPACE.search(text, end):
        start = first.start()
        uncut = word_ends[bisect_right(word_ends, start)]
        if uncut > reach(start, 2 * limit):
            uncut = start + 1  # too long in any case, so not worth encoding
        end = _word_end(word_ends, start, max(uncut, reach(start, limit)))
        while len(tokens := _encode(text[start:end], tokenizer)) > limit:
            if end == start + 1:
                problem = f"one character of passage {passage.id!r} takes {len(tokens)} wordpieces"
                raise DataError(f"{problem}; raise the limit of {limit}")
            fitting = min(start + tokens.offsets[limit - 1][1], end - 1)
            lowest = uncut if end > uncut else start + 1
            end = _word_end(word_ends, start, max(fitting, lowest))
        yield text[start:end]


def _encode(text: str, tokenizer: Tokenizer) -> Encoding:
    return tokenizer.encode(without_surrogates(text), add_special_tokens=False)


def _word_end(word_ends: list[int], start: int, end: int) -> int:
    """Move `end` back to where a word ends, unless it lies in the word that begins at `start`."""
    before = bisect_right(word_ends, end) - 1
    return word_ends[before] if before >= 0 and word_ends[before] > start else end
