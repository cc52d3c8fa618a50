"""A question and a candidate as the joint model's encoder reads them, in training and inference.

    bert   [CLS] question [SEP] title . text [SEP]                    pooled at [CLS]
    t5     question: … index: <number> title: … context: … </s>       pooled at the number

The number is an index token. A pointer head has no use for it and gets the same one everywhere, so
that a candidate's rank does not enter its prompt. `LAYOUTS` is the one definition of the order of
pieces: here they are put together from texts, in `jpr.train.batch` from the tokens of a pack. A
candidate that does not fit into one prompt may have several (`jpr.rerank.windows`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from jpr.encode.tokenizer import LONGEST_WORD, truncated_tokens
from jpr.errors import ConfigError, DataError
from jpr.io.settings import parse_section
from jpr.models.joint_config import JOINT_JSON, read_joint_json
from jpr.rerank.evidence import Vocabulary
from jpr.rerank.windows import Place, limit_of_each, windows
from jpr.types import Passage

QUESTION, TITLE, TEXT, NUMBER = "question", "title", "text", "number"
_MAX_CONTEXT = 32
_VARYING = (QUESTION, TITLE, TEXT, NUMBER)
"""The pieces of a prompt that differ between candidates; the others are fixed words."""


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """The pieces of a prompt in order; the last one is kept when the others are cut."""

    pieces: tuple[str, ...]
    pooled: int  # these three are positions of pieces
    title: int
    text: int


_T5 = ("question:", QUESTION, "index:", NUMBER, "title:", TITLE, "context:", TEXT, "</s>")
LAYOUTS = {  # the "." of `bert` is left out if there is no title
    "bert": PromptLayout(("[CLS]", QUESTION, "[SEP]", TITLE, ".", TEXT, "[SEP]"), 0, 3, 5),
    "t5": PromptLayout(_T5, 3, 5, 7),
}
STYLES = tuple(LAYOUTS)
_SPECIAL = ("[CLS]", "[SEP]", "</s>")


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """How prompts are built and where they are cut."""

    style: str = "bert"
    max_question_tokens: int = 64
    max_title_tokens: int = 32
    max_tokens: int = 256
    """Tokens of question and candidate together; the paper has 360."""
    number_tokens: tuple[int, ...] = ()
    """t5: the index tokens; one suffices for a pointer head."""

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise ConfigError(f"prompt style {self.style!r}; choose one of {', '.join(STYLES)}")
        if self.style == "t5" and not self.number_tokens:
            raise ConfigError("a t5 prompt needs number_tokens; a pointer needs one")
        if self.max_tokens < self.max_question_tokens + self.max_title_tokens + 16:
            raise ConfigError(
                f"max_tokens {self.max_tokens} leaves no room for a passage; give more"
            )


@dataclass(frozen=True, slots=True)
class Prompted:
    """A candidate of a question as a model takes it, or a window of one."""

    ids: list[int]
    mark: int  # the pooled position
    text: int  # where the passage begins, with its title unless there is a context between them
    number: int  # which index token it has, as an index head counts them
    candidate: int  # its position among the question's candidates
    tokens: int  # of the question and the candidate, all of its windows together
    is_cut: bool  # whether the question or the candidate has more tokens than the model reads

    @property
    def passage(self) -> list[int]:
        """The tokens of the passage, including its title."""
        return self.ids[self.text : -1]


class Prompts:
    """A tokenizer with the settings of a model; threads may share it."""

    def __init__(self, tokenizer: Tokenizer, settings: PromptSettings) -> None:
        """Look up the fixed words of the layout."""
        self.tokenizer, self.settings = tokenizer, settings
        self.layout = LAYOUTS[settings.style]
        fixed = list(dict.fromkeys(piece for piece in self.layout.pieces if piece not in _VARYING))
        self.special: dict[str, int] = {}  # the ids of the special tokens in the layout
        for token in [one for one in fixed if one in _SPECIAL]:
            id = tokenizer.token_to_id(token)
            if id is None:
                raise DataError(f"the tokenizer has no token {token}; is it the model's own?")
            self.special[token] = id
        self.words = dict(zip(fixed, truncated_tokens(tokenizer, fixed, 16), strict=True))
        self.words |= {token: [id] for token, id in self.special.items()}
        """The tokens of each fixed word."""

    def build(
        self, question: str, passages: Sequence[Passage], numbers: Sequence[int], most: int = 1
    ) -> list[Prompted]:
        """Return the prompts of each candidate, given their numbers.

        A candidate has one prompt or, where it does not fit into one, up to `most` windows.
        """
        if not question.strip():
            raise DataError("a question has no text; give the questions with their texts")
        s, tokens = self.settings, list(self.settings.number_tokens)
        if len(tokens) > 1 and max(numbers, default=0) >= len(tokens):
            raise ConfigError(
                f"{max(numbers) + 1} candidates, but there are {len(tokens)} index tokens; give "
                "fewer candidates or use a model with a pointer head"
            )
        ((asked, cut),) = self._first_tokens([question], s.max_question_tokens)
        titles = self._first_tokens([p.title for p in passages], s.max_title_tokens)
        texts = self._first_tokens([p.text for p in passages], most * s.max_tokens)
        contexts = truncated_tokens(self.tokenizer, [p.context for p in passages], _MAX_CONTEXT)
        whole: list[Prompted] = []
        places: list[list[Place]] = []
        columns = titles, texts, contexts, numbers
        for (title, is_long), (text, is_longer), context, number in zip(*columns, strict=True):
            own = tokens[number : number + 1] if len(tokens) > 1 else tokens  # bert has none
            varying = {QUESTION: asked, TITLE: title, TEXT: [*context, *text], NUMBER: own}
            one = self._prompted(varying, number, len(whole), cut or is_long or is_longer)
            whole.append(replace(one, text=one.tokens - 1 - len(text)) if context else one)
            places.append(self._windows(one, len(text), most))
        limit = limit_of_each([len(each) for each in places])
        pairs = zip(whole, places, strict=True)
        return [window for one, each in pairs for window in self._cut(one, each[:limit])]

    def _first_tokens(self, texts: Sequence[str], limit: int) -> list[tuple[list[int], bool]]:
        """Return the first tokens of each text, and whether it has more."""
        found = truncated_tokens(self.tokenizer, texts, limit + 1)
        longest = LONGEST_WORD * (limit + 1)
        return [
            (ids[:limit], len(ids) > limit or len(text) > longest)
            for ids, text in zip(found, texts, strict=True)
        ]

    def _prompted(
        self, varying: dict[str, list[int]], number: int, candidate: int, is_cut: bool
    ) -> Prompted:
        """Return a candidate in one prompt, however long."""
        known = self.words | varying
        pieces = [known[piece] for piece in self.layout.pieces]
        if self.settings.style == "bert" and not varying[TITLE]:
            pieces[self.layout.title + 1] = []
        ids = [token for piece in pieces for token in piece]
        lengths = [len(piece) for piece in pieces]
        pooled, title = sum(lengths[: self.layout.pooled]), sum(lengths[: self.layout.title])
        return Prompted(ids, pooled, title, number, candidate, len(ids), is_cut)

    def _windows(self, whole: Prompted, size: int, most: int) -> list[Place]:
        """Return where the windows of a prompt begin and end, the last `size` tokens but one."""
        end = len(whole.ids) - 1
        first = end - size
        room = max(1, self.settings.max_tokens - 1 - first)
        if size <= room or most == 1:
            return [(first, first + min(size, room))]
        continues = self._vocabulary.continues(np.array(whole.ids[first:end]))
        return [(first + one, first + other) for one, other in windows(continues, room, most)]

    def _cut(self, whole: Prompted, places: Sequence[Place]) -> list[Prompted]:
        """Return the windows of a prompt: all of them have its question and its title."""
        ids, is_cut = whole.ids, whole.is_cut or places[-1][1] < len(whole.ids) - 1
        head = ids[: min(places[0][0], self.settings.max_tokens - 2)]
        made = ([*head, *ids[first:last], ids[-1]] for first, last in places)
        return [replace(whole, ids=window, is_cut=is_cut) for window in made]

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary.of(self.tokenizer)


def read_prompt_settings(folder: Path) -> PromptSettings:
    """Read the prompt settings of a model's `joint.json`."""
    about, _ = read_joint_json(folder)
    return parse_section(PromptSettings, about, "prompt", folder / JOINT_JSON)
