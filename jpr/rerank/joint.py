"""Joint passage ranking: of the candidates, the k that cover most together (paper, section 3)."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Literal

from jpr.decode import Decoded
from jpr.encode.encoder_folder import DEVICES, torch_can_load, uses_gpu, weight_files
from jpr.encode.tokenizer import read_tokenizer
from jpr.errors import ConfigError, FormatError, MissingExtraError
from jpr.models.joint_config import ENCODER_FILE, STEP_FILE, is_bert_pointer, read_joint_json
from jpr.rerank.consider import Considered
from jpr.rerank.decoding import DECODERS as DECODERS
from jpr.rerank.decoding import TREES
from jpr.rerank.decoding import Decoding as Decoding
from jpr.rerank.evidence import Words
from jpr.rerank.explain import Choice, Places
from jpr.rerank.methods import RerankOptions
from jpr.rerank.order import checked
from jpr.rerank.prompt import Prompts, read_prompt_settings
from jpr.rerank.scorer import Asked, Scorer
from jpr.rerank.stop import Stop, read_stop
from jpr.types import Hit, Question, Ranking

DEFAULT = Path(__file__).parent.parent / "assets" / "joint"
"""The joint model that comes with the package (docs/model-card.md)."""
Auto = Literal["auto"]
"""As many passages as a question is worth."""


class JointReranker:
    """A joint model with a way to decode; with the decoder `independent` it is IndepPR."""

    def __init__(
        self, scorer: Scorer, prompts: Prompts, decoding: Decoding, stop: Stop | None = None
    ) -> None:
        """Put the parts together; `stop` says when k is enough, for k = "auto"."""
        self._scorer, self._prompts, self._decoding = scorer, prompts, decoding
        self._stop = stop
        self._words = Words.of(prompts.tokenizer)
        self._places = Places(prompts.tokenizer, self._words)
        self.key = f"joint {scorer.key} {prompts.settings} {decoding}"

    @classmethod
    def load(
        cls,
        folder: str | Path | None = None,
        decoder: str | None = None,
        beta: float | None = None,
        *,
        budget: int | None = None,
        answers: bool = True,
        relevance: float = 0.0,
        device: str = "auto",
        threads: int = 0,
    ) -> "JointReranker":
        """Open a model's folder, or the model that comes with the package.

        Without a decoder or β, those are taken that its folder names. With a `budget`, the chosen
        passages have at most so many tokens together; without `answers`, they are chosen as if the
        model did not read answers; with `relevance` (λ) above 0, those are preferred that tell
        them, too. On the CPU its ONNX files are preferred to other weights; `auto`
        takes a GPU where there are one, torch and weights for it; ONNX files of a BERT with a
        pointer head are such weights, too, where onnx is there to read them. `threads` is for ONNX;
        0 is one per core.
        """
        folder = DEFAULT if folder is None else Path(folder)
        chosen, width = _decoding(folder, decoder, beta)
        decoding = Decoding(chosen, width, budget=budget, answers=answers, relevance=relevance)
        settings = read_prompt_settings(folder)
        scorer = _scorer(folder, device, threads)
        if scorer.numbers and scorer.numbers != len(settings.number_tokens):
            told = f"its prompt has {len(settings.number_tokens)} numbers, its head"
            raise FormatError(folder / "joint.json", 0, f"{told} {scorer.numbers}; copy it again")
        prompts = Prompts(read_tokenizer(folder / "tokenizer.json"), settings)
        return cls(scorer, prompts, decoding, read_stop(folder))

    @property
    def decoding(self) -> Decoding:
        """How passages are chosen."""
        return self._decoding

    @property
    def weights(self) -> str:
        """Names the weights."""
        return self._scorer.key

    @property
    def scorer(self) -> Scorer:
        """The model itself."""
        return self._scorer

    def over(self, scorer: Scorer) -> "JointReranker":
        """Return the same with another way to ask the model, one that counts or limits say."""
        return JointReranker(scorer, self._prompts, self._decoding, self._stop)

    def decoded_by(self, decoding: Decoding) -> "JointReranker":
        """Return the same model with another way to choose."""
        return JointReranker(self._scorer, self._prompts, decoding, self._stop)

    def reading(self) -> "JointReranker":
        """Return the same model to read passages with, not to choose any."""
        if not self._scorer.reads_answers:
            raise ConfigError(
                "the model does not read answers; train it with answers = true, or take another"
            )
        return JointReranker(self._scorer, self._prompts, Decoding("independent"))

    @property
    def most(self) -> int:
        """How many passages a question has at most where k is "auto"."""
        return self._calibrated().most

    def adaptive(self) -> "JointReranker":
        """Return the reranker that stops by itself; its k is only the most."""
        stop = self._calibrated()
        decoding = replace(self._decoding, threshold=stop.threshold)
        return JointReranker(self._scorer, self._prompts, decoding, stop)

    def _calibrated(self) -> Stop:
        mine = self._decoding
        if self._stop is None:
            raise ConfigError('k = "auto", but the model was not calibrated; see jpr calibrate')
        has_beta = self._stop.decoder in TREES
        if self._stop.decoder != mine.decoder or (has_beta and self._stop.beta != mine.beta):
            told = f"--set decoder={self._stop.decoder}"
            told += f" --set beta={self._stop.beta}" if has_beta else ""
            raise ConfigError(f'k = "auto" was calibrated for {told}; use it or calibrate again')
        if not mine.answers and mine.decoder != "independent":
            told = "a model as it chooses by itself, for answers if it reads any"
            raise ConfigError(f'k = "auto" was calibrated for {told}; give a number')
        if mine.relevance:
            raise ConfigError('k = "auto" was calibrated for λ = 0; give a number')
        return self._stop

    def rank(self, question: Question, candidates: Sequence[Hit], k: int | Auto) -> Ranking:
        """Choose k of the candidates, best first; all where there are fewer.

        With k = "auto", as many as the question is worth.
        """
        return next(self.rank_many([Ranking(question, tuple(candidates))], k))

    def rank_many(self, rankings: Iterable[Ranking], k: int | Auto) -> Iterator[Ranking]:
        """Do the same for the candidates of many questions, some at a time."""
        return (choice.ranking for choice in self._choices(rankings, k, explain=False))

    def decode_many(self, rankings: Iterable[Ranking], k: int | Auto) -> Iterator[Choice]:
        """Do as `rank_many` does, and say how."""
        return self._choices(rankings, k, explain=True)

    def consider(self, rankings: Sequence[Ranking]) -> Considered:
        """Read the candidates of some questions, to choose from them in several ways."""
        asked = [ask(self._prompts, self._scorer.numbers, ranking) for ranking in rankings]
        return Considered(rankings, asked, self._scorer, self._words, self._places)

    def _choices(
        self, rankings: Iterable[Ranking], k: int | Auto, *, explain: bool
    ) -> Iterator[Choice]:
        if k == "auto":
            yield from self.adaptive()._choices(rankings, self.most, explain=explain)
            return
        rest = iter(rankings)
        while batch := list(islice(rest, self._scorer.batch)):
            yield from self._chosen(batch, checked(k), explain=explain)

    def _chosen(self, batch: Sequence[Ranking], k: int, *, explain: bool) -> Iterator[Choice]:
        """Choose for a batch; questions without candidates have nothing to choose from."""
        some = [ranking for ranking in batch if ranking.hits]
        found: Iterator[Choice] = iter(
            self.consider(some).choose(self._decoding, k, explain=explain) if some else ()
        )
        for ranking in batch:
            yield next(found) if ranking.hits else Choice(ranking, Decoded(()))


@dataclass(frozen=True, slots=True)
class JointSettings:
    """The settings of `jpr rerank --method joint`."""

    decoder: str | None = None
    """One of `DECODERS`; None is the model's own."""
    beta: float | None = None
    """tree, sets: the length penalty; None is the model's own."""
    budget: int | None = None
    """Tokens that the chosen passages may have together."""
    answers: bool = True
    """Whether to choose passages by the answers they add, where the model reads answers."""
    lambda_: float = 0.0
    """Weight of a passage's own probability beside the answers it adds."""

    def __post_init__(self) -> None:
        """Check the values; β is checked against the decoder when the model is opened."""
        Decoding().with_decoder(self.decoder, self.beta)
        Decoding(budget=self.budget, relevance=self.lambda_)


def make(settings: JointSettings, options: RerankOptions) -> JointReranker:
    """Return the joint model of a folder, or the bundled one."""
    reranker = JointReranker.load(
        options.model,
        settings.decoder,
        settings.beta,
        budget=settings.budget,
        answers=settings.answers,
        relevance=settings.lambda_,
        threads=options.threads,
    )
    return reranker.adaptive() if options.auto_k else reranker


def ask(prompts: Prompts, most: int, ranking: Ranking) -> Asked:
    """Put a question's candidates as a model takes them that has words for `most` numbers."""
    question, n = ranking.question.text, len(ranking.hits)
    if most and n > most:
        raise ConfigError(
            f"{n} candidates, but the index head has words for {most} numbers; give fewer "
            "candidates or use a model with a pointer head"
        )
    numbers = drawn_numbers(n, most, question) if most else list(range(n))
    return Asked(prompts.build(question, [hit.passage for hit in ranking.hits], numbers), numbers)


def drawn_numbers(n: int, most: int, question: str) -> list[int]:
    """Draw n different numbers below `most`; only the question decides which.

    Numbers by rank would tell an index head what the first stage thinks (paper, appendix).

    >>> sorted(drawn_numbers(4, 4, "which?"))
    [0, 1, 2, 3]
    >>> drawn_numbers(4, 9, "which?") == drawn_numbers(4, 9, "which?")
    True
    """
    seed = hashlib.sha256(question.encode("utf-8", "replace")).digest()
    return Random(seed).sample(range(most), n)


def _scorer(folder: Path, device: str, threads: int) -> Scorer:
    """Open the weights where they run best."""
    if device not in DEVICES:
        raise ConfigError(f"device {device!r}; choose of {', '.join(DEVICES)}")
    has_weights = bool(weight_files(folder))
    has_graphs = any((folder / name).exists() for name in (ENCODER_FILE, STEP_FILE))
    if not has_weights and not has_graphs:
        files = f"neither model.safetensors nor {ENCODER_FILE} and {STEP_FILE}"
        raise FormatError(folder, 0, f"holds no weights: {files}")
    suits_gpu = has_weights or device == "cuda" or _turns_back(folder)
    on_gpu = suits_gpu and uses_gpu(device)
    if has_graphs and not on_gpu:
        from jpr.rerank.joint_onnx import OnnxScorer

        return OnnxScorer(folder, threads)
    if not torch_can_load(has_weights):
        raise MissingExtraError(f"{folder}: a joint model in torch", "train")
    from jpr.rerank.joint_torch import TorchScorer

    return TorchScorer.load(folder, "cuda" if on_gpu else "cpu")


def _turns_back(folder: Path) -> bool:
    """Tell whether ONNX files can be weights for a GPU."""
    return torch_can_load(weights=False) and is_bert_pointer(read_joint_json(folder))


def _decoding(folder: Path, decoder: str | None, beta: float | None) -> tuple[str, float]:
    """Return decoder and β: as asked for, else the folder's, else the paper's."""
    own = read_joint_json(folder).get("decoding", {})
    file, usual = folder / "joint.json", Decoding()
    if not isinstance(own, dict):
        raise FormatError(file, 0, f"its decoding is {own!r}; copy it again")
    named, width = own.get("decoder", usual.decoder), own.get("beta", usual.beta)
    if named not in DECODERS or not isinstance(width, int | float):
        raise FormatError(file, 0, f"its decoding is not known: {own}; copy it again")
    chosen = decoder or named
    if beta is not None and chosen not in TREES:
        told = f"β = {beta} is for the decoders {' and '.join(TREES)}; {chosen} has none"
        raise ConfigError(f"{told}: leave it out, or name one of them")
    return chosen, width if beta is None else beta
