"""What a `tokenizer.json` may hold: it may come from anywhere, and the library trusts it.

Some files would end the process, take all memory or hours, or fail at the first unknown character.
So only the steps of known tokenizers (BERT's, T5's, GPT's …) are accepted, within limits.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

_STEPS = {
    "normalizer": """BertNormalizer ByteLevel Lowercase NFC NFD NFKC NFKD Nmt Precompiled Prepend
        Replace Sequence Strip StripAccents""",
    "pre_tokenizer": """BertPreTokenizer ByteLevel CharDelimiterSplit Digits Metaspace Punctuation
        Sequence Split UnicodeScripts Whitespace WhitespaceSplit""",
    "post_processor": "BertProcessing ByteLevel RobertaProcessing Sequence TemplateProcessing",
    "decoder": """BPEDecoder ByteFallback ByteLevel CTC Fuse Metaspace Replace Sequence Strip
        WordPiece""",
}
"""The types of steps that each part may have."""
_MOST_STEPS, _MOST_ADDED = 32, 100_000
_MOST_CHARACTERS, _MOST_INSERTED = 1_000, 64  # of a pattern, a token or a word; of what replaces it
_MOST_GROWTH = 1_000  # times that texts may become longer
_CLASS = re.compile(r"\\.|\[(\\.|[^\]\\])*+(\]|\\?\Z)", re.DOTALL)
_REPEATED = re.compile(r"\)[*+{]")
"""A group that is repeated, such as `(x+)+`, may take exponential time; no known one has it."""

_Record = Mapping[str, Any]


def tokenizer_problem(record: _Record) -> str:
    """Return what is not accepted of a tokenizer; empty if all is."""
    for problems in (_step_problems, _model_problems, _added_problems):
        for problem in problems(record):
            return problem
    return ""


def _step_problems(record: _Record) -> Iterator[str]:
    for part, kinds in _STEPS.items():
        steps = _steps(record.get(part))
        if len(steps) > _MOST_STEPS:
            yield f"its {part} has more than {_MOST_STEPS} steps"
        for step in steps:
            kind = step.get("type") if isinstance(step, Mapping) else step
            if kind not in kinds.split():
                yield f"its {part} has the unknown step {kind!r:.60}"
            elif problem := _step_problem(step):
                yield f"its {part} has a step {kind} {problem}"
    if prod(map(_growth, _steps(record.get("normalizer")))) > _MOST_GROWTH:
        yield f"its normalizer may make texts {_MOST_GROWTH:,} times as long"


def _steps(part: object) -> list[Any]:
    """Return the steps of a part, those of sequences included, a few more than are accepted."""
    found: list[Any] = []
    left: list[Any] = [] if part is None else [part]
    while left and len(found) <= _MOST_STEPS:
        found.append(step := left.pop())
        for inner in step.values() if isinstance(step, Mapping) else ():
            if step.get("type") == "Sequence" and isinstance(inner, list):
                left += inner
    return found


def _step_problem(step: _Record) -> str:
    pattern = step.get("pattern")
    texts = [*step.values(), *(pattern.values() if isinstance(pattern, Mapping) else ())]
    texts = [text for text in texts if isinstance(text, str)]
    if step["type"] == "Precompiled":
        return "" if _longest_replacement(step) else "whose table is damaged"
    if any(len(text) > _MOST_CHARACTERS for text in texts):
        return f"with a text of more than {_MOST_CHARACTERS:,} characters"
    if len(str(step.get("content", ""))) + len(str(step.get("prepend", ""))) > _MOST_INSERTED:
        return f"that inserts more than {_MOST_INSERTED} characters"
    if any(_REPEATED.search(_CLASS.sub("x", text)) for text in texts):
        return "with an expression that may take exponential time"
    return ""


def _growth(step: _Record) -> float:
    """Return how many times as long a step of the normalizer may make a text."""
    if step["type"] == "Precompiled":
        return _longest_replacement(step)
    if step["type"] == "Replace":
        content, pattern = str(step.get("content")), step.get("pattern")
        replaced = pattern.get("String") if isinstance(pattern, Mapping) else None
        return max(1, len(content) / len(replaced)) if replaced else 1 + len(content)
    return 1


def _longest_replacement(step: _Record) -> int:
    """Return the bytes of a table's longest replacement; 0 if it is damaged.

    The table is the length of an index, the index, and the replacements, each ended by a zero.
    """
    try:
        table = base64.b64decode(step["precompiled_charsmap"])
        start = 4 + int.from_bytes(table[:4], "little")
        table[start:].decode()
    except (KeyError, TypeError, ValueError):
        return 0
    if not 4 < start <= len(table) or start % 4:
        return 0
    return max(map(len, table[start:].split(b"\0"))) or 1


def _model_problems(record: _Record) -> Iterator[str]:
    model = record.get("model")
    if not isinstance(model, Mapping):
        yield "it has no model"
        return
    vocabulary, is_bpe, unknown = model.get("vocab"), "merges" in model, model.get("unk_token")
    if isinstance(vocabulary, list):
        if type(model.get("unk_id")) is not int:
            yield "its model has no unk_id"
    elif not isinstance(vocabulary, Mapping):
        yield "its model has no vocabulary"
    elif str(unknown) not in vocabulary and not (is_bpe and unknown is None):
        yield f"its vocabulary lacks the token for unknown words, {unknown!r:.60}"
    if is_bpe and model.get("continuing_subword_prefix"):
        yield "a BPE with a prefix of inner tokens is not supported"
    longest = model.get("max_input_chars_per_word", 0)
    if type(longest) is not int or longest > _MOST_CHARACTERS:
        yield f"its longest word is {longest!r:.60}, not at most {_MOST_CHARACTERS:,}"


def _added_problems(record: _Record) -> Iterator[str]:
    added = record.get("added_tokens") or []
    if not isinstance(added, list) or len(added) > _MOST_ADDED:
        yield f"it has no list of at most {_MOST_ADDED:,} added tokens"
    elif any(len(str(one)) > 2 * _MOST_CHARACTERS for one in added):
        yield f"an added token has more than {_MOST_CHARACTERS:,} characters"
