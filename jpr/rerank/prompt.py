"""A question and a candidate as the joint model's encoder reads them.

    bert   [CLS] question [SEP] title . text [SEP]                    read off at [CLS]
    t5     question: … index: <number> title: … context: … </s>       read off at the number

The number is a token of its own. A pointer has no use for it and gets the same one everywhere, so
that nothing of a candidate's place enters its text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from tokenizers import Tokenizer

from jpr.encode.tokenizer import truncated_tokens
from jpr.errors import ConfigError, DataError, FormatError
from jpr.models.joint_config import read_joint_json
from jpr.types import Passage

STYLES = ("bert", "t5")


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """How texts are put together and where they are cut."""

    style: str = "bert"
    max_question_tokens: int = 64
    max_title_tokens: int = 32
    max_tokens: int = 256
    """Tokens of question and candidate together; the paper has 360."""
    number_tokens: tuple[int, ...] = ()
    """t5: the tokens that are numbers; one suffices for a pointer."""

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise ConfigError(f"prompt style {self.style!r}; choose of {', '.join(STYLES)}")
        if self.style == "t5" and not self.number_tokens:
            raise ConfigError("a t5 prompt needs number_tokens; a pointer needs one")
        if self.max_tokens < self.max_question_tokens + self.max_title_tokens + 16:
            raise ConfigError(
                f"max_tokens {self.max_tokens} leaves no room for a passage; allow more"
            )


@dataclass(frozen=True, slots=True)
class Prompted:
    """A candidate's token ids, at which of them it is read off, and where its passage begins."""

    ids: list[int]
    mark: int
    text: int

    @property
    def passage(self) -> list[int]:
        """The tokens of the passage, its title among them."""
        return self.ids[self.text : -1]


class Prompts:
    """A tokenizer with the settings of a model; threads may share it."""

    def __init__(self, tokenizer: Tokenizer, settings: PromptSettings) -> None:
        """Look up the tokens that stand around the texts."""
        self.tokenizer, self.settings = tokenizer, settings
        ends = ("[CLS]", "[SEP]") if settings.style == "bert" else ("</s>",)
        self.ends = [self._known(token) for token in ends]
        words = (
            (".",) if settings.style == "bert" else ("question:", "index:", "title:", "context:")
        )
        self.words = truncated_tokens(self.tokenizer, words, 16)

    def of(
        self, question: str, passages: Sequence[Passage], numbers: Sequence[int]
    ) -> list[Prompted]:
        """Return what is read for each candidate, given the number of each."""
        if not question.strip():
            raise DataError("a question has no text; give the questions with their texts")
        s = self.settings
        (asked,) = truncated_tokens(self.tokenizer, [question], s.max_question_tokens)
        titles = truncated_tokens(self.tokenizer, [p.title for p in passages], s.max_title_tokens)
        texts = truncated_tokens(self.tokenizer, [p.text for p in passages], s.max_tokens)
        make = self._bert if s.style == "bert" else self._t5
        return [
            make(asked, title, text, number)
            for title, text, number in zip(titles, texts, numbers, strict=True)
        ]

    def _bert(self, asked: list[int], title: list[int], text: list[int], _: int) -> Prompted:
        first, last = self.ends
        named = [*title, *self.words[0]] if title else []
        body = [*named, *text][: self.settings.max_tokens - len(asked) - 3]
        return Prompted([first, *asked, last, *body, last], 0, len(asked) + 2)

    def _t5(self, asked: list[int], title: list[int], text: list[int], number: int) -> Prompted:
        question, index, titled, context = self.words
        tokens = self.settings.number_tokens
        if len(tokens) > 1 and number >= len(tokens):
            raise ConfigError(
                f"{number + 1} candidates, but there are tokens for {len(tokens)} numbers; give "
                "fewer candidates or use a model with a pointer head"
            )
        before = [*question, *asked, *index]
        mark = tokens[number if len(tokens) > 1 else 0]
        ids = [*before, mark, *titled, *title, *context, *text]
        begins = len(before) + 1 + len(titled)
        return Prompted([*ids[: self.settings.max_tokens - 1], *self.ends], len(before), begins)

    def _known(self, token: str) -> int:
        found = self.tokenizer.token_to_id(token)
        if found is None:
            raise DataError(f"the tokenizer knows no {token}; is it the model's own?")
        return int(found)


def read_prompt_settings(folder: Path) -> PromptSettings:
    """Read from a model's `joint.json` how texts are put together for it."""
    return prompt_settings(read_joint_json(folder), folder / "joint.json")


def prompt_settings(about: Mapping[str, object], file: Path) -> PromptSettings:
    """Take from what a file says of a model how texts are put together for it."""
    prompt = about.get("prompt")
    if not isinstance(prompt, dict):
        raise FormatError(file, 0, "says nothing of its prompt; copy it again")
    try:
        return PromptSettings(**_of_known_kinds(prompt))  # type: ignore[arg-type]  # just checked
    except ConfigError as error:
        raise FormatError(file, 0, f"its prompt is not known: {error}") from error


def _of_known_kinds(prompt: Mapping[str, object]) -> dict[str, object]:
    """Refuse settings of a prompt that there are not, or that are of another kind."""
    known = {field.name: type(field.default) for field in fields(PromptSettings)}
    given = {name: tuple(v) if isinstance(v, list) else v for name, v in prompt.items()}
    for name, value in given.items():
        if name not in known:
            raise ConfigError(f"unknown setting {name!r}; there are {', '.join(known)}")
        inside = value if isinstance(value, tuple) else ()
        if type(value) is not known[name] or any(type(token) is not int for token in inside):
            raise ConfigError(f"{name} is {value!r}")
    return given
