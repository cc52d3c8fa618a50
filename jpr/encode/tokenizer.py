"""Tokenizers: how an encoder reads questions and passages, and what other stages share.

    question   [CLS] prompt question [SEP]
    passage    [CLS] prompt title joint text [SEP]

A title is truncated to its limit, then the whole to its own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from unicodedata import category

from tokenizers import Tokenizer
from tokenizers.implementations.bert_wordpiece import BertWordPieceTokenizer

from jpr.encode.encoder_settings import EncoderSettings
from jpr.errors import FormatError
from jpr.types import Passage

_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST_WORD = 100  # characters per token at most: text beyond that is cut before it is tokenized
_WORD_START = ("▁", "Ġ")
"""First characters of word-initial tokens in vocabularies that do not mark the others with "##"."""
_BERT, _MPNET = ("[CLS]", "[SEP]"), ("<s>", "</s>")
"""First and last token; MPNet's vocabulary includes BERT's too, but not the other way round."""


class EncoderTokenizer:
    """A tokenizer with an encoder's settings; threads may share it."""

    def __init__(self, tokenizer: Tokenizer, settings: EncoderSettings, where: Path) -> None:
        """Look up the special tokens; `where` is for error messages."""
        self._tokenizer, self._settings = tokenizer, settings
        pair = _BERT if tokenizer.token_to_id(_MPNET[0]) is None else _MPNET
        self._first, self._last = (_known(tokenizer, token, where) for token in pair)
        fixed = settings.question_prompt, settings.passage_prompt, settings.title_joint
        self._question_prompt, self._passage_prompt, self._joint = self._ids(fixed, _LONGEST_WORD)

    def tokenize_questions(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each question's token ids."""
        limit = self._settings.max_question_tokens
        return [
            self._add_special([*self._question_prompt, *ids], limit)
            for ids in self._ids(texts, limit)
        ]

    def tokenize_passages(self, passages: Sequence[Passage]) -> list[list[int]]:
        """Return each passage's token ids."""
        limit = self._settings.max_passage_tokens
        titles = self._ids((p.title for p in passages), self._settings.max_title_tokens)
        texts = self._ids((p.text for p in passages), limit)
        rows = []
        for title, text in zip(titles, texts, strict=True):
            head = [*title, *self._joint] if title else []
            rows.append(self._add_special([*self._passage_prompt, *head, *text], limit))
        return rows

    def _add_special(self, ids: list[int], limit: int) -> list[int]:
        return [self._first, *ids[: limit - 2], self._last]

    def _ids(self, texts: Iterable[str], limit: int) -> list[list[int]]:
        return truncated_tokens(self._tokenizer, texts, limit)


def truncated_tokens(tokenizer: Tokenizer, texts: Iterable[str], limit: int) -> list[list[int]]:
    """Return the first `limit` tokens of each text, without special tokens."""
    cut = [without_surrogates(text[: _LONGEST_WORD * limit]) for text in texts]
    found = tokenizer.encode_batch_fast(cut, add_special_tokens=False)
    return [encoding.ids[:limit] for encoding in found]


def continuation_tokens(vocabulary: Mapping[str, int]) -> frozenset[int]:
    """Return the tokens that continue a word.

    >>> sorted(continuation_tokens({"light": 0, "##house": 1, "##.": 2}))
    [1]
    >>> sorted(continuation_tokens({"▁light": 0, "house": 1, ".": 2, "▁the": 3, "##": 4}))
    [1]
    """
    marked = {token[2:]: id for token, id in vocabulary.items() if token.startswith("##")}
    unmarked = {token: id for token, id in vocabulary.items() if not token.startswith(_WORD_START)}
    n_starts = len(vocabulary) - len(unmarked)
    # T5's vocabulary has "##" as a word too, so the more frequent mark decides.
    rest = marked if len(marked) > n_starts else unmarked if n_starts else {}
    return frozenset(id for token, id in rest.items() if category(token[:1] or " ")[0] in "LNM")


def _known(tokenizer: Tokenizer, token: str, where: Path) -> int:
    found = tokenizer.token_to_id(token)
    if found is None:
        raise FormatError(where, 0, f"no token {token}; is it the tokenizer of a BERT?")
    return found


def without_surrogates(text: str) -> str:
    """Replace unpaired surrogates, which the tokenizers library does not accept."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def open_tokenizer(folder: Path) -> tuple[Tokenizer, Path]:
    """Open a folder's `tokenizer.json`, or else its `vocab.txt`, and return the file too."""
    file, vocabulary = folder / "tokenizer.json", folder / "vocab.txt"
    if file.exists():
        return read_tokenizer(file), file
    if vocabulary.exists():
        return _from_vocabulary(vocabulary), vocabulary
    raise FormatError(folder, 0, "neither tokenizer.json nor vocab.txt in this folder")


def read_tokenizer(file: Path) -> Tokenizer:
    """Read a `tokenizer.json`, ignoring its padding and truncation."""
    try:
        tokenizer = Tokenizer.from_buffer(file.read_bytes())
    except OSError as error:
        raise FormatError(file, 0, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise FormatError(file, 0, f"not a tokenizer ({error}); copy it again") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _from_vocabulary(file: Path) -> Tokenizer:
    """Make the tokenizer of a BERT: uncased unless a word has a capital."""
    try:
        words = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise FormatError(file, 0, f"cannot be read ({error}); copy it again") from error
    cased = any(word[:1].isupper() for word in words)
    made = BertWordPieceTokenizer({word: i for i, word in enumerate(words)}, lowercase=not cased)
    return Tokenizer.from_str(made.to_str())
