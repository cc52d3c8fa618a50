"""Questions and passages to token ids, exactly as an encoder was trained to read them.

    question   [CLS] prompt question [SEP]
    passage    [CLS] prompt title joint text [SEP]

A title longer than its limit loses its end, and so does what exceeds the limit of the whole.
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

_HALF = re.compile("[\ud800-\udfff]")
_LONGEST_WORD = 100
"""Characters of the longest word that is looked up; what no token can reach is not tokenised."""


class EncoderTokenizer:
    """A tokenizer with an encoder's settings; threads may share it."""

    def __init__(self, tokenizer: Tokenizer, settings: EncoderSettings, where: Path) -> None:
        """Look up the tokens that stand around every text; `where` is for messages."""
        self._tokenizer, self._settings = tokenizer, settings
        pair = _BERT if tokenizer.token_to_id(_MPNET[0]) is None else _MPNET
        self._first, self._last = (_known(tokenizer, token, where) for token in pair)
        self._question_prompt = self._ids([settings.question_prompt], _LONGEST_WORD)[0]
        self._passage_prompt = self._ids([settings.passage_prompt], _LONGEST_WORD)[0]
        self._joint = self._ids([settings.title_joint], _LONGEST_WORD)[0]

    def tokenize_questions(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each question's token ids."""
        limit = self._settings.max_question_tokens
        return [
            self._framed([*self._question_prompt, *ids], limit) for ids in self._ids(texts, limit)
        ]

    def tokenize_passages(self, passages: Sequence[Passage]) -> list[list[int]]:
        """Return each passage's token ids."""
        most, of_title = self._settings.max_passage_tokens, self._settings.max_title_tokens
        titles = self._ids((passage.title for passage in passages), of_title)
        texts = self._ids((passage.text for passage in passages), most)
        found = []
        for title, text in zip(titles, texts, strict=True):
            named = [*title[:of_title], *self._joint] if title else []
            found.append(self._framed([*self._passage_prompt, *named, *text], most))
        return found

    def _framed(self, ids: list[int], limit: int) -> list[int]:
        return [self._first, *ids[: limit - 2], self._last]

    def _ids(self, texts: Iterable[str], limit: int) -> list[list[int]]:
        return truncated_tokens(self._tokenizer, texts, limit)


def truncated_tokens(tokenizer: Tokenizer, texts: Iterable[str], limit: int) -> list[list[int]]:
    """Return the first `limit` tokens of each text, without any around it."""
    cut = [without_surrogates(text[: _LONGEST_WORD * limit]) for text in texts]
    found = tokenizer.encode_batch_fast(cut, add_special_tokens=False)
    return [encoding.ids[:limit] for encoding in found]


def continuation_tokens(vocabulary: Mapping[str, int]) -> frozenset[int]:
    """Return the tokens before which a word has begun and not ended.

    >>> sorted(continuation_tokens({"light": 0, "##house": 1, "##.": 2}))
    [1]
    >>> sorted(continuation_tokens({"▁light": 0, "house": 1, ".": 2, "▁the": 3, "##": 4}))
    [1]
    """
    going_on = {token[2:]: id for token, id in vocabulary.items() if token.startswith("##")}
    others = {token: id for token, id in vocabulary.items() if not token.startswith(_BEGINNINGS)}
    begin = len(vocabulary) - len(others)
    # T5 knows "##" as a word, too: what there are more of tells.
    rest = going_on if len(going_on) > begin else others if begin else {}
    return frozenset(id for token, id in rest.items() if category(token[:1] or " ")[0] in "LNM")


_BEGINNINGS = ("▁", "Ġ")
"""What tokens at the beginning of a word begin with, where the others have no mark ("##")."""
_BERT, _MPNET = ("[CLS]", "[SEP]"), ("<s>", "</s>")
"""The first and the last token; MPNet's words include BERT's too, but not the other way round."""


def _known(tokenizer: Tokenizer, token: str, where: Path) -> int:
    found = tokenizer.token_to_id(token)
    if found is None:
        raise FormatError(where, 0, f"knows no token {token}; is it the tokenizer of a BERT?")
    return found


def without_surrogates(text: str) -> str:
    """Return the text without half characters, which the library does not take."""
    return text if text.isascii() else _HALF.sub("\ufffd", text)


def open_tokenizer(folder: Path) -> tuple[Tokenizer, Path]:
    """Open a folder's `tokenizer.json`, or else its `vocab.txt`, and say which it was."""
    file, words = folder / "tokenizer.json", folder / "vocab.txt"
    if file.exists():
        return read_tokenizer(file), file
    if words.exists():
        file, tokenizer = words, _from_words(words)
    else:
        raise FormatError(folder, 0, "holds neither tokenizer.json nor vocab.txt")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, file


def read_tokenizer(file: Path) -> Tokenizer:
    """Read a `tokenizer.json`, but for the padding and truncation it may ask for."""
    try:
        tokenizer = Tokenizer.from_buffer(file.read_bytes())
    except OSError as error:
        raise FormatError(file, 0, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise FormatError(file, 0, f"is no tokenizer ({error}); copy it again") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _from_words(file: Path) -> Tokenizer:
    """Make the tokenizer of an uncased BERT, unless the words say that case counts."""
    try:
        words = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise FormatError(file, 0, f"cannot be read ({error}); copy it again") from error
    cased = any(word[:1].isupper() for word in words)
    made = BertWordPieceTokenizer({word: i for i, word in enumerate(words)}, lowercase=not cased)
    return Tokenizer.from_str(made.to_str())
