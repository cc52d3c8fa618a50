"""The parts of a question that asks several things: each is searched for as well as the whole."""

import re

_END = re.compile(r"(?<=[?？؟])\s+")
_WORD = re.compile(r"\w+")
MOST_PARTS = 8  # a longer question is searched for by its first parts: each costs a search


def question_parts(text: str) -> list[str]:
    """Return the sentences of a question of several, without those of a single word.

    >>> question_parts("Who wrote Emma? Who wrote Dracula? Why?")
    ['Who wrote Emma?', 'Who wrote Dracula?']
    >>> question_parts("Who wrote Emma?")
    []
    """
    sentences = [part.strip() for part in _END.split(text)]
    parts = [part for part in sentences if len(_WORD.findall(part)) > 1]
    return list(dict.fromkeys(parts))[:MOST_PARTS] if len(parts) > 1 else []
