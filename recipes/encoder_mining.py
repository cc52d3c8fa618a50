"""Find positives and hard negatives for `recipes/encoder.py`, with both retrievers."""

import argparse
import itertools
import json
import lzma
from collections.abc import Sequence
from multiprocessing.pool import Pool

import numpy as np

from recipes.dpr_plus import found_in, say
from recipes.dual_encoder import encode_rows, nearest
from recipes.encoder_corpora import Corpora, encoded, load_named, training_sets
from recipes.encoder_data import DOMAINS, TrainingQuestion
from recipes.mining import mine

MINED = 60


def mined(options: argparse.Namespace, corpora: Corpora, name: str, pool: Pool) -> None:
    """Find positives and hard negatives among the nearest passages and BM25's first."""
    model = load_named(options, name)
    vectors = encoded(options, corpora, name, model)
    lexical = np.load(options.input / "bm25.npz")
    with (options.work / f"examples-{name}.jsonl").open("w") as stream:
        for data, corpus, asked in training_sets(options):
            rows = corpora.ranges[corpus]
            questions = encode_rows(model, corpora.questions([one.text for one in asked]))
            near, _ = nearest(questions, vectors[rows.start : rows.stop], MINED)
            tasks = [
                (one, interleaved(dense, words), rows.start, corpus)
                for one, dense, words in zip(asked, near.tolist(), lexical[data], strict=True)
            ]
            found = pool.map(example_of, tasks, chunksize=128)
            stream.writelines(json.dumps([data, record]) + "\n" for record in found)
            say(f"{name}: {data}, {sum(record is not None for record in found)} of {len(found)}")


def interleaved(dense: Sequence[int], lexical: Sequence[int]) -> list[int]:
    """Merge two lists of rows, first by first, without repeats and fillers."""
    both = itertools.chain.from_iterable(itertools.zip_longest(dense, lexical, fillvalue=-1))
    return [int(row) for row in dict.fromkeys(both) if row >= 0]


IDS: dict[str, dict[str, int]] = {}
"""For each domain, the rows of its passages by id, for the processes that look for answers."""


def example_of(task: tuple[TrainingQuestion, list[int], int, str]) -> list[object] | None:
    """Return positives, hard negatives and all passages that must not be negatives."""
    asked, candidates, first, corpus = task
    if asked.gold:
        gold = [IDS[corpus][id] for id in asked.gold]
        others = [row for row in candidates if row not in set(gold)]
        return _from_gold(asked, gold, others, first)
    shifted = [row + first for row in candidates]
    loose = found_in((asked.question, shifted, False))
    held = [row for row, found in zip(candidates, loose, strict=True) if found]
    sure = dict(zip(held, found_in((asked.question, [r + first for r in held], True)), strict=True))
    example = mine(candidates, [sure.get(row, ()) for row in candidates])
    if example is None:
        return None
    hard = [row for row in example.hard if row not in sure]
    return [example.positives, hard, sorted({*example.holding, *held})] if hard else None


def _from_gold(
    asked: TrainingQuestion, gold: list[int], others: list[int], first: int
) -> list[object] | None:
    by_answer: dict[int, list[int]] = {}
    for row, found in zip(
        gold, found_in((asked.question, [row + first for row in gold], False)), strict=True
    ):
        for answer in found or (-1,):
            by_answer.setdefault(answer, []).append(row)
    loose = found_in((asked.question, [row + first for row in others], False))
    hard = [row for row, found in zip(others, loose, strict=True) if not found][:20]
    held = [row for row, found in zip(others, loose, strict=True) if found]
    return [list(by_answer.values()), hard, sorted({*gold, *held})] if hard else None


def load_ids(options: argparse.Namespace) -> None:
    """Fill IDS, before processes are forked."""
    for name in DOMAINS:
        path = options.domains / f"{name}.passages.jsonl.xz"
        with lzma.open(path, "rt", encoding="utf-8") as stream:
            IDS[name] = {str(json.loads(line)["id"]): row for row, line in enumerate(stream)}
