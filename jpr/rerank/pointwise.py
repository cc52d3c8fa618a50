"""Pointwise ranking: how likely a T5 is to call a candidate relevant (Nogueira et al., 2020).

The model reads `Query: … Document: … Relevant:` and predicts one word; the score is the
log-probability of `true` against `false`. Public monoT5 checkpoints are Hugging Face T5 folders.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from jpr.encode.encoder_folder import uses_gpu, weight_files, weights_digest
from jpr.encode.tokenizer import read_tokenizer, truncated_tokens
from jpr.errors import ConfigError, DataError, FormatError, needs_extra
from jpr.rerank.methods import NoSettings, RerankOptions
from jpr.rerank.order import checked, ranked
from jpr.stages import Reranker
from jpr.types import Passage, Question, Ranking

if TYPE_CHECKING:
    from jpr.models.t5 import T5

_LONGEST = 512


class PointwiseReranker(Reranker):
    """The k candidates that a yes/no T5 finds most relevant, each scored independently."""

    def __init__(self, model: "T5", tokenizer: Tokenizer, key: str = "") -> None:
        """Take a model and its tokenizer; `key` names the weights."""
        self._model, self._tokenizer = model, tokenizer
        self._answers = [_token(tokenizer, word) for word in ("true", "false")]
        self.key = f"pointwise {key}"

    @classmethod
    def load(cls, folder: Path, device: str = "auto") -> "PointwiseReranker":
        """Open a Hugging Face T5 folder; on a GPU if one is present."""
        with needs_extra(f"{folder}: a T5", "train"):
            from jpr.models.t5_checkpoint import read_t5

        model = read_t5(folder).to("cuda" if uses_gpu(device) else "cpu")
        tokenizer = read_tokenizer(folder)
        try:
            return cls(model, tokenizer, weights_digest(weight_files(folder)))
        except DataError as error:
            raise FormatError(folder, 0, str(error)) from error

    def rank_many(self, rankings: Iterable[Ranking], k: int) -> Iterator[Ranking]:
        """Return the k most relevant candidates of each question; ties keep their order."""
        checked(k)
        for ranking in rankings:
            scores = self._scores(ranking.question, [hit.passage for hit in ranking.hits])
            order = sorted(enumerate(scores), key=lambda choice: -choice[1])
            yield ranked(ranking.question, ranking.hits, order[:k])

    def _scores(self, question: Question, passages: Sequence[Passage]) -> list[float]:
        import torch

        if not passages:
            return []
        if not question.text.strip():
            raise DataError(f"question {question.id!r} has no text; give the questions")
        device = next(self._model.parameters()).device
        rows = self._prompts(question.text, passages)
        ids = torch.tensor([token for row in rows for token in row], device=device)
        lengths = torch.tensor([len(row) for row in rows], device=device)
        start = torch.full((len(rows), 1), self._model.config.decoder_start_token_id)
        cuda = device.type == "cuda"
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=cuda):
            memory = self._model.encoder.forward_packed(ids, lengths)
            logits = self._model.logits(start.to(device), memory, lengths)[:, 0, self._answers]
        found: list[float] = logits.float().log_softmax(-1)[:, 0].cpu().tolist()
        return found

    def _prompts(self, question: str, passages: Sequence[Passage]) -> list[list[int]]:
        """Return the token ids of each prompt; a long document loses its end, not its question."""
        tokenizer, words = self._tokenizer, (f"Query: {question} Document:", "Relevant:")
        asked, relevant = truncated_tokens(tokenizer, words, _LONGEST // 2)
        end = tokenizer.encode("").ids[-1:]  # </s>
        room = _LONGEST - len(asked) - len(relevant) - len(end)
        texts = (f"{passage.title} {passage.text}".strip() for passage in passages)
        found = truncated_tokens(tokenizer, texts, room)
        return [[*asked, *text, *relevant, *end] for text in found]


def _token(tokenizer: Tokenizer, word: str) -> int:
    """Return the one token that a word is, as it stands behind a space or alone."""
    for spelling in (f"▁{word}", word):
        if (found := tokenizer.token_to_id(spelling)) is not None:
            return int(found)
    raise DataError(f"its tokenizer has no token for {word!r}; is it a monoT5?")


def make(_: NoSettings, options: RerankOptions) -> PointwiseReranker:
    """Return the monoT5 in a folder."""
    if options.model is None:
        raise ConfigError(f"--method {options.method} needs --model: the folder of a monoT5")
    return PointwiseReranker.load(options.model)
