"""The paper's reader: a T5 that encodes passages separately and generates answers from all.

    FOLDER/reader.json                                settings; hashes of the other files
    FOLDER/config.json, model.safetensors, tokenizer.json   a Hugging Face T5

Grounded, the default, it generates only what the passages contain, token by token.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from jpr.encode.encoder_folder import uses_gpu, weight_files, weights_digest
from jpr.encode.tokenizer import read_tokenizer, truncated_tokens
from jpr.errors import ConfigError, DataError, FormatError
from jpr.io.checksums import checked_sums, write_folder
from jpr.io.settings import parse_section
from jpr.models.generation import GeneratedAnswer, GenerateOptions, generate_answers
from jpr.models.joint_config import read_model_json
from jpr.models.t5 import T5
from jpr.models.t5_checkpoint import read_t5, write_t5
from jpr.models.tries import Tries
from jpr.rerank.answer_text import AnswerLocator, grounded
from jpr.rerank.evidence import Vocabulary
from jpr.rerank.merge_answers import merge_answers
from jpr.rerank.order import warn_if_cut
from jpr.rerank.prompt import Prompts, PromptSettings
from jpr.rerank.windows import MOST_WINDOWS
from jpr.stages import Reader, batched
from jpr.types import Answer, Hit, Ranking

READER_JSON = "reader.json"
KIND, FORMAT = "reader", 1
LONGEST_ANSWER = 16  # maximum tokens of one answer


class FusionReader(Reader):
    """A T5 with its prompts; threads may share it."""

    batch = 8

    def __init__(
        self,
        model: T5,
        prompts: Prompts,
        options: GenerateOptions,
        *,
        is_grounded: bool = True,
        max_answers: int = 20,
        key: str = "",
    ) -> None:
        """Take a model on its device; `key` names its weights."""
        if max_answers < 1:
            raise ConfigError(f"max_answers = {max_answers}; give at least 1")
        self._model, self._prompts, self._options = model, prompts, options
        self._is_grounded, self._max_answers = is_grounded, max_answers
        self._locator = AnswerLocator(prompts.tokenizer)
        self.key = f"fusion, windows {key} {prompts.settings} {options} {is_grounded} {max_answers}"

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        is_grounded: bool = True,
        width: int | None = None,
        stop_penalty: float | None = None,
        max_answers: int = 20,
        device: str = "auto",
    ) -> "FusionReader":
        """Open a reader's folder; width and penalty default to those it was tuned with."""
        home = Path(folder)
        settings, options = read_reader_json(home)
        sums = checked_sums(home / READER_JSON)
        changes = {"width": width, "stop_penalty": stop_penalty}
        options = replace(options, **{name: v for name, v in changes.items() if v is not None})  # type: ignore[arg-type]  # as they are
        on_gpu = uses_gpu(device)
        model = read_t5(home, torch.bfloat16 if on_gpu else torch.float32)
        prompts = Prompts(read_tokenizer(home), settings)
        key = weights_digest(weight_files(home), sums)
        model = model.to("cuda" if on_gpu else "cpu").eval()
        return cls(
            model, prompts, options, is_grounded=is_grounded, max_answers=max_answers, key=key
        )

    def read_many(self, rankings: Iterable[Ranking]) -> Iterator[tuple[Answer, ...]]:
        """Return the answers in the passages of many questions, in batches."""
        for batch in batched(rankings, self.batch):
            readable = [ranking for ranking in batch if _has_text(ranking)]
            written = iter(self._written(readable) if readable else ())
            for ranking in batch:
                answers = self._answers(ranking, next(written)) if _has_text(ranking) else ()
                yield answers[: self._max_answers]

    @torch.inference_mode()
    def _written(self, rankings: Sequence[Ranking]) -> list[list[GeneratedAnswer]]:
        device = next(self._model.parameters()).device
        prompted = [
            self._prompts.build(
                r.question.text, [h.passage for h in r.hits], [0] * len(r.hits), MOST_WINDOWS
            )
            for r in rankings
        ]
        warn_if_cut(any(one.is_cut for each in prompted for one in each))
        ids, lengths = _concatenated([one.ids for each in prompted for one in each], device)
        memory = self._model.encoder.forward_packed(ids, lengths)
        tokens = [sum(len(one.ids) for one in each) for each in prompted]
        whole = torch.tensor(tokens, device=device)
        tries = self._tries(rankings, device) if self._is_grounded else None
        return generate_answers(self._model, memory, whole, self._options, tries)

    def _tries(self, rankings: Sequence[Ranking], device: torch.device) -> Tries:
        """Return the tries of all token sequences in titles and in texts."""
        passages = [hit.passage for ranking in rankings for hit in ranking.hits]
        texts = [text for passage in passages for text in (passage.title, passage.text)]
        prompts, words = self._prompts, self._locator.vocabulary
        longest = MOST_WINDOWS * prompts.settings.max_tokens
        rows = truncated_tokens(prompts.tokenizer, texts, longest)
        counts = torch.tensor([2 * len(ranking.hits) for ranking in rankings], device=device)
        return tries_of(*_concatenated(rows, device), counts, words, prompts, self._options)

    def _answers(self, ranking: Ranking, written: Sequence[GeneratedAnswer]) -> tuple[Answer, ...]:
        if self._is_grounded:
            return placed(written, ranking.hits, self._locator)
        texts = ((self._locator.decoded(one.tokens).strip(), one.log_prob) for one in written)
        return merge_answers(grounded(*one, ranking.hits) or Answer(*one) for one in texts)


def tries_of(
    ids: Tensor,
    lengths: Tensor,
    texts: Tensor,
    vocabulary: Vocabulary,
    prompts: Prompts,
    options: GenerateOptions,
) -> Tries:
    """Return the tries of token sequences that can be answers; see `Tries.of`.

    None contains the unknown token or a special token.
    """
    own = [vocabulary.unknown, options.separator, *prompts.special.values()]
    own += prompts.settings.number_tokens
    kept = ids.masked_fill(torch.isin(ids, torch.tensor(own, device=ids.device)), -1)
    inner = torch.from_numpy(vocabulary.inner).to(ids.device)[ids]
    inner[1:] |= ids[:-1] == vocabulary.lone
    return Tries.of(kept, lengths, texts, inner, LONGEST_ANSWER)


def placed(
    written: Sequence[GeneratedAnswer], hits: Sequence[Hit], locator: AnswerLocator
) -> tuple[Answer, ...]:
    """Return answers as the first passages with their tokens write them, most likely first."""
    found = [(one.tokens, one.log_prob) for one in written]
    anywhere = np.ones((len(hits), len(found)), dtype=np.bool_)
    return merge_answers(locator.answers(found, [hit.passage for hit in hits], anywhere))


def _concatenated(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the concatenated tokens of all rows, and the length of each."""
    ids = torch.tensor([token for row in rows for token in row], dtype=torch.long, device=device)
    return ids, torch.tensor([len(row) for row in rows], dtype=torch.long, device=device)


def _has_text(ranking: Ranking) -> bool:
    """Return whether there is anything to read; the question must have a text then."""
    there = any(hit.passage.text.strip() or hit.passage.title.strip() for hit in ranking.hits)
    if there and not ranking.question.text.strip():
        raise DataError(f"question {ranking.question.id!r} has no text; give the questions")
    return there


def write_reader(
    folder: Path, model: T5, settings: PromptSettings, options: GenerateOptions
) -> None:
    """Write a reader's folder except its tokenizer, which must exist."""
    about = {"kind": KIND, "format": FORMAT, "prompt": asdict(settings), "ways": asdict(options)}
    write_folder(folder / READER_JSON, about, lambda: write_t5(folder, model))


def read_reader_json(folder: Path) -> tuple[PromptSettings, GenerateOptions]:
    """Read a reader's prompt settings and generation options."""
    file = folder / READER_JSON
    if not file.exists():
        raise FormatError(folder, 0, f"is not a reader: {READER_JSON} is missing")
    about, _ = read_model_json(file, KIND, FORMAT)
    prompt = parse_section(PromptSettings, about, "prompt", file)
    return prompt, parse_section(GenerateOptions, about, "ways", file)
