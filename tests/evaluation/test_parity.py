"""Our α-nDCG, ERR-IA and subtopic recall are those of ndeval, through pyndeval and ir_measures."""

import ir_measures
import numpy as np
import pyndeval
import pytest

from jpr.coverage import Coverage
from jpr.evaluation.measures import ERR_IA, JudgedRun, StRecall, alpha_nDCG

N_QUESTIONS = 25


class RandomRun:
    """Judgements in which every subtopic has a passage, and a run over the same passages."""

    def __init__(self, seed: int) -> None:
        chance = np.random.default_rng(seed)
        self.judgements: list[tuple[str, str, str, int]] = []
        self.scored: list[tuple[str, str, float]] = []
        n_answers, pool, positions = [], [], []
        for question in map(str, range(N_QUESTIONS)):
            n, size = int(chance.integers(1, 7)), int(chance.integers(2, 40))
            holds = chance.random((size, n)) < chance.choice([0.05, 0.2, 0.5])
            holds[chance.integers(size, size=n), np.arange(n)] = True
            order = chance.permutation(size)
            ids = [f"d{i:03d}" for i in range(size)]
            self.judgements += [
                (question, str(answer + 1), ids[i], int(holds[i, answer]))
                for i in range(size)
                for answer in range(n)
            ]
            self.scored += [(question, ids[i], float(size - r)) for r, i in enumerate(order)]
            n_answers.append(n)
            pool.append([set(np.flatnonzero(row).tolist()) for row in holds[::-1]])
            positions.append([size - 1 - int(i) for i in order])
        coverage = Coverage.of_lists(n_answers, pool)
        self.judged = JudgedRun(coverage.reorder(positions), coverage)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9, 0.99, 1.0])
def test_pyndeval_agrees(seed: int, alpha: float) -> None:
    run = RandomRun(seed)
    # At k = 1 ndeval leaves ERR-IA without its normalisation, so the comparison starts at 2.
    ours = {}
    for k in range(2, 21):
        ours[f"alpha-nDCG@{k}"] = (alpha_nDCG(alpha) @ k).of(run.judged)
        ours[f"ERR-IA@{k}"] = (ERR_IA(alpha) @ k).of(run.judged)
        ours[f"strec@{k}"] = (StRecall @ k).of(run.judged)
    theirs = pyndeval.ndeval(
        [pyndeval.SubtopicQrel(*judgement) for judgement in run.judgements],
        [pyndeval.ScoredDoc(*scored) for scored in run.scored],
        measures=list(ours),
        alpha=alpha,
    )
    for name, values in ours.items():
        expected = [theirs[str(question)][name] for question in range(N_QUESTIONS)]
        np.testing.assert_allclose(values, expected, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [5, 10, 20])
def test_ir_measures_agrees(seed: int, k: int) -> None:
    run = RandomRun(seed)
    qrels = [ir_measures.Qrel(q, doc, rel, subtopic) for q, subtopic, doc, rel in run.judgements]
    scored = [ir_measures.ScoredDoc(*row) for row in run.scored]
    for ours, theirs in (
        (alpha_nDCG(0.9) @ k, ir_measures.alpha_nDCG(alpha=0.9) @ k),
        (ERR_IA @ k, ir_measures.ERR_IA @ k),
        (StRecall @ k, ir_measures.StRecall @ k),
    ):
        # One measure a call: version 0.4.3 gives 0 for the second α of the same call.
        expected = ir_measures.calc_aggregate([theirs], qrels, scored)[theirs]
        assert ours.of(run.judged).mean() == pytest.approx(expected, abs=1e-6)
