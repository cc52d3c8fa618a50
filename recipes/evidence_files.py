"""What the bundled model reads off the candidates of many questions, kept in files.

Reading a hundred candidates takes seconds, choosing among them milliseconds: weights are fitted
and choices compared on these files (`recipes/conditioning.py`). Made once; a stopped run resumes.
"""

import random
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jpr import Bm25Retriever, JointReranker, cover, load_encoder
from jpr.decode.answers import AnswerCalibration, Evidence
from jpr.decode.conditioning import Observed, scaled
from jpr.decode.search import Ask, Row
from jpr.encode.tokenizer import read_tokenizer
from jpr.io.atomic import publish_binary
from jpr.rerank.evidence import Vocabulary, find_evidence
from jpr.rerank.joint import BUNDLED_MODEL, model_input
from jpr.rerank.prompt import Prompts, read_prompt_settings
from jpr.retrieve.index import Index
from jpr.retrieve.retrievers import open_retriever
from jpr.stages import Retriever
from jpr.train.conditioning import ConditioningExample
from jpr.types import Prefix, Question, Ranking
from recipes.encoder_data import question_file, read_questions

CANDIDATES = 100
_LEAST = 1e-5  # smaller P(a | c) are left out
_WIKI_SEED, _DOMAIN_SEED = 7, 3
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Some questions of a set, and how many candidates of each are read."""

    name: str
    several: int
    """Questions with several answers; of a domain, questions."""
    one: int = 0
    """Questions with one answer."""
    candidates: int = CANDIDATES

    @property
    def domain(self) -> str:
        """The domain whose passages it is over; empty for the Wikipedia passages."""
        name, dot, _ = self.name.partition(".")
        return name.removesuffix("_parts") if dot else ""


@dataclass(frozen=True, eq=False)
class ReadQuestion:
    """A question whose candidates the model has read."""

    observed: Observed
    log_probs: Row
    """log R(c) of the first step, flattened."""
    covers: Flags  # (C, G)

    def relevance(self, prefix: Prefix) -> Row:
        """Return log R(c | prefix): that of the first step, without the prefix.

        The decoder of the bundled model hardly depends on the prefix (docs/lab.md).
        """
        left = self.log_probs.copy()
        left[list(prefix)] = -np.inf
        total = np.logaddexp.reduce(left)
        return left - total if np.isfinite(total) else left

    def example(self, weight: float) -> ConditioningExample:
        """Return it as training reads it."""
        return ConditioningExample(self.observed, self.relevance, self.covers, weight)


class EvidenceFiles:
    """Reads candidates, or the files of those that were read before."""

    def __init__(self, work: Path, questions: Path, domains: Path, wiki: Path) -> None:
        """Take the folder of the files and of the domains' indexes, and the sources."""
        self._work, self._questions, self._domains, self._wiki = work, questions, domains, wiki
        self._scorer = JointReranker.load(device="cpu").scorer
        tokenizer = read_tokenizer(BUNDLED_MODEL)
        self._prompts = Prompts(tokenizer, read_prompt_settings(BUNDLED_MODEL))
        self._vocabulary = Vocabulary.of(tokenizer)

    def read(self, requested: QuestionSet, calibration: AnswerCalibration) -> list[ReadQuestion]:
        """Return the questions of a set; those without candidates are left out."""
        folder, start = self._work / "evidence" / requested.name, time.perf_counter()
        folder.mkdir(parents=True, exist_ok=True)
        questions, open_it = self._asked(requested)
        found, retriever = [], None
        for at, question in enumerate(questions):
            path = folder / f"{zlib.crc32((question.id + question.text).encode())}.npz"
            if not path.exists():
                retriever = retriever or open_it()
                ranking = retriever.retrieve(question, requested.candidates)
                if not ranking.hits:
                    continue
                self._write(path, ranking)
                if at % 20 == 0:
                    print(f"{requested.name} {at}: {time.perf_counter() - start:.0f} s", flush=True)
            found.append(read_file(path, calibration))
        return found

    def _asked(self, requested: QuestionSet) -> tuple[list[Question], Callable[[], Retriever]]:
        """Return the questions of a set, and what opens their retriever."""
        domain, name = requested.domain, requested.name
        folder = self._domains if domain else self._questions
        asked = [one.question for one in read_questions(question_file(folder, name))]
        random.Random(_DOMAIN_SEED if domain else _WIKI_SEED).shuffle(asked)
        if domain:
            index = self._work / "domains" / domain
            return asked[: requested.several], lambda: open_retriever(index, encoder=load_encoder())
        several = [one for one in asked if len(one.answers) > 1][: requested.several]
        lone = [one for one in asked if len(one.answers) == 1][: requested.one]
        return several + lone, lambda: Bm25Retriever(Index(self._wiki))

    def _write(self, path: Path, ranking: Ranking) -> None:
        opened = self._scorer.open([model_input(self._prompts, 0, ranking)])
        assert opened.passages is not None
        evidence = find_evidence(opened.passages[0], self._vocabulary)
        (row,) = opened.ask([(0, ())])
        said, held = np.nonzero(evidence.probs > _LEAST), np.nonzero(evidence.contains)
        with publish_binary(path) as stream:
            np.savez_compressed(
                stream,
                row=row.astype(np.float32),
                n=len(row),
                a=len(evidence.answers),
                p_row=said[0].astype(np.int16),
                p_col=said[1].astype(np.int32),
                p=evidence.probs[said],
                c_row=held[0].astype(np.int16),
                c_col=held[1].astype(np.int32),
                cov=cover([ranking]).matrix(0).T,
                score=np.array([hit.score for hit in ranking.hits], np.float32),
                qlen=len(ranking.question.text.split()),
            )


def read_file(path: Path, calibration: AnswerCalibration) -> ReadQuestion:
    """Read a question's file."""
    with np.load(path) as arrays:
        shape = int(arrays["n"]), int(arrays["a"])
        probs, contains = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.bool_)
        probs[arrays["p_row"], arrays["p_col"]] = arrays["p"]
        contains[arrays["c_row"], arrays["c_col"]] = True
        answers = tuple((at,) for at in range(shape[1]))  # their tokens were not kept
        seen = Observed(
            Evidence(answers, probs, contains), scaled(arrays["score"]), int(arrays["qlen"])
        )
        return ReadQuestion(seen, calibration.flat(arrays["row"]), arrays["cov"])


def by_question(reads: Sequence[ReadQuestion]) -> Ask:
    """Return the model's log R(c | prefix) for (question, prefix) pairs."""
    return lambda pairs: [reads[question].relevance(prefix) for question, prefix in pairs]
