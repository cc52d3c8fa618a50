"""Tokenizers: how an encoder reads questions and passages, and what other stages share.

    question   [CLS] prompt question [SEP]
    passage    [CLS] prompt title joint text [SEP]

A title is truncated to its limit, then the whole to its own.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unicodedata import category

from tokenizers import Tokenizer
from tokenizers.implementations.bert_wordpiece import BertWordPieceTokenizer

from jpr.encode.encoder_settings import EncoderSettings
from jpr.encode.tokenizer_check import tokenizer_problem
from jpr.errors import FormatError
from jpr.io.atomic import explain_damage
from jpr.io.json_files import read_object
from jpr.text import without_surrogates
from jpr.types import Passage

LONGEST_WORD = 100  # characters per token at most: text beyond that is cut before it is tokenized
_WORD_START = ("▁", "Ġ")
"""First characters of word-initial tokens in vocabularies that do not mark the others with "##"."""
_FILES = "tokenizer.json", "vocab.txt"
_MODELS = {"joint.json": "encoder_config", "config.json": ""}
"""Files that say the size of a model's vocabulary, and where in them."""
_PROBE = "A probe: naïve, 日本, \u0301\u0590 ꙮ x9 [CLS] <s>"
_BERT, _MPNET = ("[CLS]", "[SEP]"), ("<s>", "</s>")
"""First and last token; MPNet's vocabulary includes BERT's too, but not the other way round."""


class EncoderTokenizer:
    """A tokenizer with an encoder's settings; threads may share it."""

    def __init__(self, tokenizer: Tokenizer, settings: EncoderSettings, where: Path) -> None:
        """Look up the special tokens; `where` is for error messages."""
        self._tokenizer, self._settings = tokenizer, settings
        pair = _BERT if tokenizer.token_to_id(_MPNET[0]) is None else _MPNET
        first, last = map(tokenizer.token_to_id, pair)
        if first is None or last is None:
            problem = f"lacks the token {' or '.join(pair)}; is it the tokenizer of a BERT?"
            raise FormatError(where, 0, problem)
        self._first, self._last = first, last
        fixed = settings.question_prompt, settings.passage_prompt, settings.title_joint
        self._question_prompt, self._passage_prompt, self._joint = truncated_tokens(
            tokenizer, fixed, LONGEST_WORD
        )

    def tokenize_questions(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each question's token ids."""
        limit = self._settings.max_question_tokens
        rows = truncated_tokens(self._tokenizer, texts, limit)
        return [self._add_special([*self._question_prompt, *ids], limit) for ids in rows]

    def tokenize_passages(self, passages: Sequence[Passage]) -> list[list[int]]:
        """Return each passage's token ids."""
        limits = self._settings.max_title_tokens, self._settings.max_passage_tokens
        titles = truncated_tokens(self._tokenizer, (p.title for p in passages), limits[0])
        texts = truncated_tokens(self._tokenizer, (p.text for p in passages), limits[1])
        rows = []
        for title, text in zip(titles, texts, strict=True):
            head = [*title, *self._joint] if title else []
            rows.append(self._add_special([*self._passage_prompt, *head, *text], limits[1]))
        return rows

    def _add_special(self, ids: list[int], limit: int) -> list[int]:
        return [self._first, *ids[: limit - 2], self._last]


def truncated_tokens(tokenizer: Tokenizer, texts: Iterable[str], limit: int) -> list[list[int]]:
    """Return the first `limit` tokens of each text, without special tokens."""
    cut = [without_surrogates(text[: LONGEST_WORD * limit]) for text in texts]
    with explain_damage(Path("tokenizer.json"), "cannot read a text", "copy it again", Exception):
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


def open_tokenizer(folder: Path) -> tuple[Tokenizer, Path]:
    """Open the tokenizer of a folder or of the tower `passage` in it, and return its file too.

    Without a `tokenizer.json`, `vocab.txt` makes that of a BERT: uncased unless a word has a
    capital.
    """
    places = [place / name for place in (folder, folder / "passage") for name in _FILES]
    file = next((place for place in places if place.exists()), None)
    if file is None:
        raise FormatError(folder, 0, f"neither {' nor '.join(_FILES)} in this folder")
    if file.suffix == ".json":
        return read_tokenizer(file), file
    try:
        words = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise FormatError(file, 0, f"cannot be read ({error}); copy it again") from error
    cased = any(word[:1].isupper() for word in words)
    made = BertWordPieceTokenizer({word: i for i, word in enumerate(words)}, lowercase=not cased)
    return _checked(json.loads(made.to_str()), file), file


def read_tokenizer(path: Path, about: Mapping[str, object] | None = None) -> Tokenizer:
    """Read a `tokenizer.json`, or the one in a folder, ignoring its padding and truncation.

    `about` is the record of the model in the folder, for a caller that has read it.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    return _checked(read_object(file), file, about)


def _checked(
    record: Mapping[str, Any], file: Path, about: Mapping[str, object] | None = None
) -> Tokenizer:
    """Make the tokenizer of a record; one that is not accepted or does not work is an error."""
    if problem := tokenizer_problem(record):
        problem = f"not a tokenizer that is supported: {problem}"
        raise FormatError(file, 0, f"{problem}; use that of a BERT or a T5")
    with explain_damage(file, "not a tokenizer", "copy it again", Exception):
        tokenizer = Tokenizer.from_str(json.dumps(record))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode(_PROBE, add_special_tokens=False)
    vocabulary, size = record["model"]["vocab"], _table_size(file.parent, about)
    ids = vocabulary.values() if isinstance(vocabulary, Mapping) else ()
    if size and max(tokenizer.get_vocab_size() - 1, *ids) >= size:
        problem = f"has more tokens than the {size:,} of the model in its folder"
        raise FormatError(file, 0, f"{problem}; copy the model's own")
    return tokenizer


def _table_size(folder: Path, about: Mapping[str, object] | None) -> int:
    """Return how many tokens the model in a folder knows; 0 if no file there says it."""
    for name, section in _MODELS.items():
        if (folder / name).exists():
            record = about or read_object(folder / name)
            found = record.get(section) if section else record
            size = found.get("vocab_size") if isinstance(found, Mapping) else None
            return size if isinstance(size, int) else 0
    return 0
