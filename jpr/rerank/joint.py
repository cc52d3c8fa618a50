"""Joint passage ranking: of the candidates, the k that cover most together (paper, section 3)."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from threading import Lock
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jpr.decode.answers import UNCALIBRATED, AnswerCalibration
from jpr.decode.conditioning import COVERAGE, Conditioning
from jpr.encode.encoder_folder import DEVICES, torch_can_load, uses_gpu, weight_files
from jpr.encode.tokenizer import read_tokenizer
from jpr.errors import ConfigError, DataError, FormatError, MissingExtraError
from jpr.io.settings import parse_section
from jpr.models import joint_config
from jpr.rerank.answer_text import AnswerLocator
from jpr.rerank.decoding import Decoding, StoppingRule
from jpr.rerank.methods import RerankOptions
from jpr.rerank.order import warn_if_cut
from jpr.rerank.prompt import Prompts, PromptSettings
from jpr.rerank.scorer import EncodedCandidates, ModelInput, Scorer
from jpr.rerank.windows import MOST_WINDOWS
from jpr.stages import batched
from jpr.types import INDEPENDENT, Hit, Question, Ranking, Reply

BUNDLED_MODEL = Path(__file__).parent.parent / "assets" / "joint"
"""The joint model that comes with the package (docs/model-card.md)."""
Auto = Literal["auto"]  # as many passages as the model's stopping rule allows


class JointReranker:
    """A joint model with a way to decode; with the decoder `independent` it is IndepPR."""

    def __init__(
        self,
        scorer: Scorer,
        prompts: Prompts,
        decoding: Decoding,
        stopping: StoppingRule | None = None,
        conditioning: Conditioning = COVERAGE,
        calibration: AnswerCalibration = UNCALIBRATED,
    ) -> None:
        """Combine the parts; `stopping` is for k = "auto"."""
        self.scorer, self._prompts, self.decoding = scorer, prompts, decoding
        self._stopping, self._learned, self._calibration = stopping, conditioning, calibration
        self._locator = AnswerLocator(prompts.tokenizer)
        self._latest: tuple[Ranking, EncodedCandidates] | None = None  # of `log_probs`
        self._lock = Lock()

    @classmethod
    def load(
        cls,
        folder: str | Path | None = None,
        decoder: str | None = None,
        beta: float | None = None,
        *,
        budget: int | None = None,
        conditioning: str = "learned",
        relevance: float = 0.0,
        trust: float = 1.0,
        device: str = "auto",
        threads: int = 0,
    ) -> "JointReranker":
        """Open a model's folder, or the bundled model.

        The decoder and β default to those that the folder names. With a `budget`, the chosen
        passages have at most that many tokens together. `conditioning`, `relevance` (λ) and `trust`
        are those of `Decoding`. On the CPU, ONNX files are preferred to other weights; `auto` takes
        a GPU if one is present, with torch and weights for it, which may be the ONNX files of a
        BERT with a pointer head if onnx is installed. `threads` is for ONNX; 0 is one per core.
        """
        folder = BUNDLED_MODEL if folder is None else Path(folder)
        about, sums = joint_config.read_joint_json(folder)
        file = folder / joint_config.JOINT_JSON
        settings = parse_section(PromptSettings, about, "prompt", file)
        own = parse_section(Decoding, {"decoding": {}, **about}, "decoding", file)
        calibrated = about.get("stop") is not None
        stopping = parse_section(StoppingRule, about, "stop", file) if calibrated else None
        both = {"calibration": {}, "conditioning": {}, **about}
        calibration = parse_section(AnswerCalibration, both, "calibration", file)
        learned = parse_section(Conditioning, both, "conditioning", file)
        own = own.with_decoder(decoder or own.decoder, beta)
        own = replace(own, conditioning=conditioning, relevance=relevance, trust=trust)
        decoding = replace(own, budget=budget)
        scorer = _open_scorer(folder, about, sums, device, threads)
        if scorer.index_tokens and scorer.index_tokens != len(settings.number_tokens):
            problem = f"{len(settings.number_tokens)} index tokens in its prompt, "
            raise FormatError(file, 0, f"{problem}{scorer.index_tokens} in its head; copy it again")
        prompts = Prompts(read_tokenizer(folder, about), settings)
        return cls(scorer, prompts, decoding, stopping, learned, calibration)

    @property
    def key(self) -> str:
        """Names weights, prompt and decoding: the same key, the same choices."""
        settings = f"{self._prompts.settings} {self.decoding} {self._learned} {self._calibration}"
        return f"joint, windows {self.scorer.key} {settings}"

    @property
    def weights(self) -> str:
        """Names the weights."""
        return self.scorer.key

    def with_scorer(self, scorer: Scorer) -> "JointReranker":
        """Return the same with a scorer that wraps this one's, for example to limit time."""
        other = self._copied()
        other.scorer = scorer
        return other

    def with_decoding(self, decoding: Decoding) -> "JointReranker":
        """Return the same model with another way to choose."""
        other = self._copied()
        other.decoding = decoding
        return other

    def _copied(self) -> "JointReranker":
        other = copy(self)
        other._latest, other._lock = None, Lock()
        return other

    def for_reading(self) -> "JointReranker":
        """Return the same model to read answers from all passages given."""
        if not self.scorer.reads_answers:
            raise ConfigError("the model does not read answers; train it with answers = true")
        return self.with_decoding(Decoding(INDEPENDENT))

    @property
    def max_k(self) -> int:
        """The maximum number of passages per question for k = "auto"."""
        return self._calibrated().most

    def adaptive(self) -> "JointReranker":
        """Return the reranker with its stopping rule; k is then only the maximum."""
        return self.with_decoding(replace(self.decoding, threshold=self._calibrated().threshold))

    def _calibrated(self) -> StoppingRule:
        if self._stopping is None:
            raise ConfigError(
                'k = "auto", but the model was not calibrated; see jpr export --calibrate'
            )
        self._stopping.check(self.decoding)
        return self._stopping

    def rank(self, question: Question, candidates: Sequence[Hit], k: int | Auto) -> Ranking:
        """Choose k of the candidates, best first; all if there are fewer.

        With k = "auto", the model's stopping rule decides how many.
        """
        return next(self.rank_many([Ranking(question, tuple(candidates))], k))

    def rank_many(self, rankings: Iterable[Ranking], k: int | Auto) -> Iterator[Ranking]:
        """Do the same for the candidates of many questions, in batches."""
        for reply in self._choose(rankings, k, explain=False):
            warn_if_cut(bool(reply.truncated))
            yield reply.ranking

    def log_probs(
        self, question: Question, candidates: Sequence[Hit], prefix: Sequence[int] = ()
    ) -> NDArray[np.float64]:
        """Return log P(next passage | prefix) over the candidates (C,), as searches use it.

        The prefix holds positions of candidates, which have −∞. For the next call with the same
        question and candidates nothing is encoded again.
        """
        n, chosen = len(candidates), tuple(prefix)
        if len(set(chosen)) < len(chosen) or not all(0 <= place < n for place in chosen):
            raise DataError(f"prefix {chosen}: give different positions from 0 to {n - 1}")
        if not n:
            return np.empty(0)
        ranking = Ranking(question, tuple(candidates))
        with self._lock:
            if self._latest is None or self._latest[0] != ranking:
                self._latest = ranking, self.encode([ranking])
            encoded = self._latest[1]
            if not self.scorer.stays_open:
                self._latest = None
            (row,) = encoded.next_passage(self.decoding)([(0, chosen)])
        return np.asarray(row, dtype=np.float64)

    def decode_many(self, rankings: Iterable[Ranking], k: int | Auto) -> Iterator[Reply]:
        """Do the same, and return the search and the answers too."""
        return self._choose(rankings, k, explain=True)

    def encode(self, rankings: Sequence[Ranking]) -> EncodedCandidates:
        """Encode the candidates of some questions, to choose from them several times.

        Long ones are read in windows, except by an index head: it has no tokens for windows.
        """
        index_tokens, some = self.scorer.index_tokens, [one for one in rankings if one.hits]
        most = 1 if index_tokens else MOST_WINDOWS
        inputs = [model_input(self._prompts, index_tokens, one, most) for one in some]
        learned = self._learned, self._calibration
        return EncodedCandidates(rankings, inputs, self.scorer, self._locator, *learned)

    def _choose(
        self, rankings: Iterable[Ranking], k: int | Auto, *, explain: bool
    ) -> Iterator[Reply]:
        chooser, most = (self.adaptive(), self.max_k) if k == "auto" else (self, k)
        for batch in batched(rankings, self.scorer.batch):
            yield from self.encode(batch).choose(chooser.decoding, most, explain=explain)


@dataclass(frozen=True, slots=True)
class JointSettings:
    """The settings of `jpr rerank --method joint`."""

    decoder: str | None = None
    """One of `DECODERS`; None is the model's own."""
    beta: float | None = None
    """tree, sets: the length penalty; None is the model's own."""
    budget: int | None = None
    """Tokens that the chosen passages may have together."""
    conditioning: str = "learned"
    """learned: P(next | prefix) as the model learned it; coverage: by the answers passages add;
    none: by the model's decoder alone."""
    lambda_: float = 0.0
    """Added to the weight of a passage's own probability beside the answers it adds."""
    trust: float = 1.0
    """How much the model counts against the first stage, from 0 (the order of the run) to 1."""

    def __post_init__(self) -> None:
        """Check the values; β is checked against the decoder when the model is opened."""
        decoding = Decoding().with_decoder(self.decoder, self.beta)
        decoding = replace(decoding, conditioning=self.conditioning, trust=self.trust)
        replace(decoding, budget=self.budget, relevance=self.lambda_)


def make(settings: JointSettings, options: RerankOptions) -> JointReranker:
    """Return the joint model of a folder, or the bundled one."""
    given = asdict(settings)
    given["relevance"] = given.pop("lambda_")
    reranker = JointReranker.load(options.model, **given, threads=options.threads)
    return reranker.adaptive() if options.auto_k else reranker


def model_input(prompts: Prompts, index_tokens: int, ranking: Ranking, most: int = 1) -> ModelInput:
    """Return the input of a model for a question's candidates, each in up to `most` windows.

    The model has `index_tokens`, or none.
    """
    question, n = ranking.question.text, len(ranking.hits)
    numbers = list(range(n))
    if 0 < n <= index_tokens:  # else there are none, or too few, which `build` reports
        numbers = random_numbers(n, index_tokens, question)
    passages = [hit.passage for hit in ranking.hits]
    return prompts.build(question, passages, numbers, most)


def random_numbers(n: int, limit: int, question: str) -> list[int]:
    """Return n different numbers below `limit`, determined by the question alone.

    Numbers by rank would reveal the first-stage order to an index head (paper, appendix).

    >>> sorted(random_numbers(4, 4, "which?"))
    [0, 1, 2, 3]
    >>> random_numbers(4, 9, "which?") == random_numbers(4, 9, "which?")
    True
    """
    seed = hashlib.sha256(question.encode("utf-8", "replace")).digest()
    return Random(seed).sample(range(limit), n)


def _open_scorer(
    folder: Path, about: Mapping[str, object], sums: Mapping[Path, str], device: str, threads: int
) -> Scorer:
    """Open the weights where they run best."""
    if device not in DEVICES:
        raise ConfigError(f"device {device!r}; choose one of {', '.join(DEVICES)}")
    has_weights = bool(weight_files(folder))
    graphs = (joint_config.ENCODER_FILE, joint_config.STEP_FILE)
    has_graphs = any((folder / name).exists() for name in graphs)
    if not has_weights and not has_graphs:
        files = f"neither model.safetensors nor {' and '.join(graphs)}"
        raise FormatError(folder, 0, f"holds no weights: {files}")
    convertible = torch_can_load(weights=False) and joint_config.is_bert_pointer(about)
    on_gpu = (has_weights or device == "cuda" or convertible) and uses_gpu(device)
    if has_graphs and not on_gpu:
        from jpr.rerank.onnx_scorer import OnnxScorer

        return OnnxScorer(folder, sums, threads)
    if not torch_can_load(has_weights):
        raise MissingExtraError(f"{folder}: a joint model in torch", "train")
    from jpr.rerank.torch_scorer import TorchScorer

    return TorchScorer.load(folder, sums, "cuda" if on_gpu else "cpu")
