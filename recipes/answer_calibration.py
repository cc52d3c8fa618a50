"""Fit the probability that an answer is right, and score the answers of the bundled model.

Needs: the bundled model, a lexical index of the Wikipedia passages (`jpr index passages.tsv.xz
--encoder none --out wiki-bm25`), and QUESTIONS with the development sets over them; 15 minutes on
two cores.

    python -m recipes.answer_calibration QUESTIONS --wiki wiki-bm25 --out calibration.json

Candidates are BM25's first 100. The logistic function of `jpr/decode/answers.py:
AnswerCalibration` is fitted on one half of the questions of each set; its calibration error is
that of the other half, and of the encyclopedia, on which nothing is fitted. F1 is that of the
answers in five chosen passages; controls are another rule of how many to give, and the likeliest.
"""

import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import exp
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import jpr
from jpr import Bm25Retriever, JointReranker, load_questions
from jpr.bundled import open_pipeline
from jpr.decode.answers import AnswerCalibration, Evidence, log_support
from jpr.decode.conditioning import COVERAGE, Observed
from jpr.decode.search import Row
from jpr.encode.tokenizer import read_tokenizer
from jpr.evaluation.evaluation import ALL, MULTI
from jpr.io.atomic import publish
from jpr.io.manifest import commit, manifest
from jpr.models.joint_config import SPANS_FILE
from jpr.read.spans import likely
from jpr.rerank.evidence import Vocabulary, find_evidence
from jpr.rerank.joint import BUNDLED_MODEL, model_input
from jpr.rerank.prompt import Prompts, read_prompt_settings
from jpr.retrieve.index import Index
from jpr.text import normalize_answer
from jpr.types import Answer, Question, Ranking
from recipes.command_line import results_parser
from recipes.report import Record, save_records

SETS = {"webquestions_dev": 200, "ambignq_dev": 140}
CANDIDATES, CHOSEN, TEMPERATURE = 100, 5, 1.5
ENCYCLOPEDIA = "encyclopedia"
NAME, SEED = "answer-calibration", 1
DEFAULT = "odds of a fifth of the likeliest one's"
BEST, RATIO, FIRST = "highest expected F1", "above 0.3 of the likeliest", "the likeliest alone"
COMMAND = "python -m recipes.answer_calibration QUESTIONS --wiki wiki-bm25 --out calibration.json"
ABOUT = (
    "Answers of the bundled model in five passages chosen from BM25's 100: how many to give, by "
    "their probabilities. These were fitted on the other half of the questions of "
    "the two Wikipedia sets; nothing was fitted on the encyclopedia, whose candidates are those of "
    "hybrid search. The calibration error is that of all answers with some support, ten bins."
)
_SAMPLES = 10_000
_LEAST = 1e-3  # answers with less support are left out of the fit: nearly all are wrong
_BINS = 10
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Read:
    """A question with what its candidates say."""

    question: Question
    evidence: Evidence
    log_probs: Row  # log P(c), flattened
    texts: Sequence[str]  # the normal form of each answer

    @property
    def right(self) -> Floats:
        """Whether each answer is one of the gold answers (A,)."""
        gold = {normalize_answer(text) for one in self.question.answers for text in one}
        return np.array([text in gold for text in self.texts], dtype=np.float64)


class AnswerSource:
    """The bundled model, asked what the candidates of a question say."""

    def __init__(self) -> None:
        """Open the model."""
        self._scorer = JointReranker.load().scorer
        self._tokenizer = read_tokenizer(BUNDLED_MODEL)
        self._prompts = Prompts(self._tokenizer, read_prompt_settings(BUNDLED_MODEL))
        self._vocabulary = Vocabulary.of(self._tokenizer)

    def read(self, ranking: Ranking) -> Read:
        """Encode the candidates, and find their answers."""
        opened = self._scorer.open([model_input(self._prompts, 0, ranking)])
        assert opened.passages is not None
        evidence = find_evidence(opened.passages[0], self._vocabulary)
        (row,) = opened.ask([(0, ())])
        texts = [normalize_answer(self._tokenizer.decode(list(one))) for one in evidence.answers]
        flat = AnswerCalibration(TEMPERATURE).flat(row)
        return Read(ranking.question, evidence, flat, texts)


def rankings(name: str, folder: Path, wiki: Path) -> Iterator[Ranking]:
    """Yield the candidates of some questions of a set."""
    if name == ENCYCLOPEDIA:
        retriever = open_pipeline().retriever
        file = Path(jpr.__path__[0], "assets", ENCYCLOPEDIA, "questions.jsonl")
        questions = load_questions(file)
    else:
        retriever = Bm25Retriever(Index(wiki))
        questions = load_questions(folder / f"{name}.jsonl")
        random.Random(SEED).shuffle(questions)
        questions = questions[: SETS[name]]
    for question in questions:
        found = retriever.retrieve(question, CANDIDATES)
        if found.hits:
            yield found


def fit(reads: Sequence[Read]) -> AnswerCalibration:
    """Fit the coefficients by maximum likelihood."""
    rows, right = [], []
    for one in reads:
        mass, best = log_support(*one.evidence.support(one.log_probs))
        kept = mass > np.log(_LEAST)
        rows.append(np.stack([np.ones_like(mass), mass, best], axis=1)[kept])
        right.append(one.right[kept])
    x, y = (torch.from_numpy(np.concatenate(part)) for part in (rows, right))
    weights = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=300)

    def closure() -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(x @ weights, y)
        loss.backward()  # type: ignore[no-untyped-call]  # torch types it loosely
        return loss.item()

    optimizer.step(closure)  # type: ignore[no-untyped-call]  # torch types it loosely
    bias, mass, best = (round(value, 3) for value in weights.tolist())
    return AnswerCalibration(TEMPERATURE, bias, mass, best)


def chosen(one: Read) -> list[int]:
    """Choose passages as SeqDecode does, by the answers that each adds."""
    prefix: list[int] = []
    for _ in range(min(CHOSEN, len(one.log_probs))):
        worth = COVERAGE.log_probs(Observed(one.evidence), tuple(prefix), one.log_probs)
        prefix.append(int(worth.argmax()))
    return prefix


def answers(one: Read, probabilities: Floats) -> list[Answer]:
    """Return the answers that the chosen passages contain, one of each normal form."""
    shown = set(np.nonzero(one.evidence.contains[chosen(one)])[1].tolist())
    found: dict[str, float] = {}
    for at in np.argsort(-probabilities, kind="stable").tolist():
        if at in shown and one.texts[at]:
            found.setdefault(one.texts[at], float(np.log(probabilities[at])))
    return [Answer(text, log_prob) for text, log_prob in list(found.items())[:64]]


def most_useful(found: Sequence[Answer]) -> Sequence[Answer]:
    """Return the number of answers with the highest expected F1: 2 Σ p / (n + Σ of all p)."""
    apart = likely(found, 0.0)
    p = np.exp([answer.log_prob for answer in apart])
    expected = 2 * p.cumsum() / (np.arange(1, len(p) + 1) + max(1.0, p.sum()))
    return apart[: int(expected.argmax()) + 1] if apart else ()


def f1(one: Read, given: Sequence[Answer]) -> float:
    """Return the F1 of a question's answers."""
    texts = {answer.text for answer in given}
    right = sum(any(normalize_answer(s) in texts for s in own) for own in one.question.answers)
    return 200 * right / (len(texts) + len(one.question.answers))


def calibration_error(reads: Sequence[Read], calibration: AnswerCalibration) -> float:
    """Return the expected calibration error over ten bins of equal width."""
    given, right = [], []
    for one in reads:
        mass, best = one.evidence.support(one.log_probs)
        kept = mass > _LEAST
        given.append(calibration.probabilities(mass, best)[kept])
        right.append(one.right[kept])
    p, y = np.concatenate(given), np.concatenate(right)
    bins = np.minimum((p * _BINS).astype(int), _BINS - 1)
    apart = p - y
    gaps = [abs(apart[np.flatnonzero(bins == each)].sum()) for each in range(_BINS)]
    return float(sum(gaps) / len(p))


def interval(values: Floats) -> tuple[float, float, float]:
    """Return the mean with its 95 % interval."""
    chance = np.random.default_rng(0)
    samples = chance.choice(values, (_SAMPLES, len(values))).mean(axis=1)
    low, high = np.percentile(samples, [2.5, 97.5]).tolist()
    return float(values.mean()), low, high


def scored(data: str, reads: Sequence[Read], calibration: AnswerCalibration) -> Iterator[Record]:
    """Yield F1 by the default rule and by the controls, and the calibration error."""
    several = np.array([len(one.question.answers) > 1 for one in reads], dtype=np.bool_)
    ways: dict[str, list[float]] = {DEFAULT: [], BEST: [], RATIO: [], FIRST: []}
    for one in reads:
        found = answers(one, calibration.probabilities(*one.evidence.support(one.log_probs)))
        top = exp(found[0].log_prob) if found else 0.0
        ways[DEFAULT].append(f1(one, likely(found)))
        ways[BEST].append(f1(one, most_useful(found)))
        ways[RATIO].append(f1(one, likely(found, 0.3 * top)))
        ways[FIRST].append(f1(one, found[:1]))
    for way, values in ways.items():
        for slice, kept in ((ALL, np.ones_like(several)), (MULTI, several)):
            some = np.array(values)[np.flatnonzero(kept)]
            if len(some):
                numbers = interval(some)
                yield Record(NAME, way, data, "F1", slice, CHOSEN, *numbers, len(some), commit())
    error = 100 * calibration_error(reads, calibration)
    labels = "probabilities of answers", f"{data}, calibration", "calibration error"
    yield Record(NAME, *labels, ALL, CHOSEN, error, error, error, len(reads), commit())


def main() -> None:
    """Fit on the even questions, score the odd ones and the encyclopedia."""
    parser = results_parser(__doc__, "questions")
    for name in ("wiki", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args()
    begin, source = time.perf_counter(), AnswerSource()
    reads: dict[str, list[Read]] = {}
    for name in (*SETS, ENCYCLOPEDIA):
        found = rankings(name, options.questions, options.wiki)
        reads[name] = [source.read(one) for one in found]
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
    calibration = fit([one for name in SETS for one in reads[name][0::2]])
    records = [one for name in SETS for one in scored(name, reads[name][1::2], calibration)]
    records += scored(ENCYCLOPEDIA, reads[ENCYCLOPEDIA], calibration)
    with publish(options.out) as stream:
        stream.write(json.dumps(asdict(calibration), indent=1) + "\n")
    inputs = {f"{name}.jsonl": options.questions / f"{name}.jsonl" for name in SETS}
    inputs["spans.npz"] = BUNDLED_MODEL / SPANS_FILE
    made = manifest(COMMAND, inputs, time.perf_counter() - begin, packages=("onnxruntime",))
    about = {"about": ABOUT, **made, "seed": SEED, "calibration": asdict(calibration)}
    save_records(options.results, NAME, records, about)


if __name__ == "__main__":
    main()
