"""MultiSpanQA's validation questions with their contexts, and exact-match scores of a span head.

The even questions choose the threshold (dev), the odd ones are the test. Scores are those of the
data set's paper: precision, recall and F1 of exact matches, over the answers of all questions.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jpr.decode.answers import Evidence
from jpr.encode.onnx_session import OnnxModel, one_text
from jpr.encode.tokenizer import read_tokenizer
from jpr.models.heads import SpanHead
from jpr.models.joint_config import ENCODER_FILE, EXACT_INPUT
from jpr.rerank.evidence import PassageTokens, Vocabulary, find_evidence
from jpr.rerank.joint import BUNDLED_MODEL
from jpr.rerank.prompt import Prompted, Prompts, read_prompt_settings
from jpr.text import normalize_answer
from jpr.types import Passage

THRESHOLDS = np.arange(0.02, 0.9, 0.02)
_OLD_SPANS, _OLD_LONGEST = 8, 12
_OVERLAP = 40  # tokens that two windows of a context share
_SAMPLES = 1000

Predictions = list[dict[str, float]]
"""For each question, the normal form of each answer and its probability."""


class Contexts(Protocol):
    """The vectors of contexts."""

    def batch(self, rows: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Return vectors, lengths and spans."""


@dataclass(frozen=True, slots=True)
class Context:
    """A window of a question's context."""

    question: int
    prompt: Prompted
    spans: tuple[tuple[int, int], ...]
    answers: tuple[frozenset[str], ...]
    """Of the question: the normal forms of each."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Percent of the test half, with 95 % intervals, at the threshold best for the other half."""

    precision: tuple[float, float, float]
    recall: tuple[float, float, float]
    f1: tuple[float, float, float]
    n: int
    threshold: float
    dev_f1: float


def load_contexts(path: Path) -> list[Context]:
    """Return the windows of all questions, in order."""
    tokenizer = read_tokenizer(BUNDLED_MODEL)
    prompts = Prompts(tokenizer, read_prompt_settings(BUNDLED_MODEL))
    found = []
    with path.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream):
            record = json.loads(line)
            words = record["context"].split()
            sizes = [
                len(one.ids) for one in tokenizer.encode_batch(words, add_special_tokens=False)
            ]
            asked = len(tokenizer.encode(record["question"], add_special_tokens=False).ids)
            settings = prompts.settings
            room = settings.max_tokens - 3 - min(asked, settings.max_question_tokens)
            answers = tuple(frozenset(map(normalize_answer, one)) for one in record["answers"])
            needles = {tuple(tokenizer.encode(text, add_special_tokens=False).ids)
                       for one in record["answers"] for text in one}  # fmt: skip
            for first, last in _windows(sizes, room):
                passage = Passage("context", "", " ".join(words[first:last]))
                (prompt,) = prompts.build(record["question"], [passage], [0])
                spans = tuple(_occurrences(prompt.passage, needles))
                found.append(Context(number, prompt, spans, answers))
    return found


def _windows(sizes: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of words whose tokens have room, overlapping by some tokens."""
    first = 0
    while True:
        last, used = first, 0
        while last < len(sizes) and used + sizes[last] <= room:
            used += sizes[last]
            last += 1
        yield first, last
        if last == len(sizes) or last == first:
            return
        shared = 0
        following = last
        while following > first + 1 and shared + sizes[following - 1] <= _OVERLAP:
            following -= 1
            shared += sizes[following]
        first = following


def _occurrences(ids: Sequence[int], needles: set[tuple[int, ...]]) -> Iterator[tuple[int, int]]:
    for needle in needles:
        for at in range(len(ids) - len(needle) + 1):
            if tuple(ids[at : at + len(needle)]) == needle:
                yield at, at + len(needle) - 1


def predictions(head: SpanHead, contexts: Sequence[Context], encoded: Contexts) -> Predictions:
    """Return the answers of each question in all its windows, with their probabilities."""
    vocabulary = Vocabulary.of(tokenizer := read_tokenizer(BUNDLED_MODEL))
    found: Predictions = [{} for _ in range(contexts[-1].question + 1)]
    for row, context in enumerate(contexts):
        vectors, lengths, _ = encoded.batch([row])
        with torch.no_grad():
            logits = head(vectors, lengths, torch.zeros_like(lengths))[:-1].numpy()
        ids = np.array(context.prompt.passage, dtype=np.int64)
        tokens = PassageTokens(ids, np.array([len(ids)]), logits)
        evidence: Evidence = find_evidence(tokens, vocabulary)
        own = found[context.question]
        for answer, probability in zip(evidence.answers, evidence.probs[0].tolist(), strict=True):
            text = normalize_answer(tokenizer.decode(list(answer)))
            if text:
                own[text] = max(own.get(text, 0.0), probability)
    return found


def counts(
    found: Predictions, gold: Sequence[Sequence[frozenset[str]]], threshold: float
) -> NDArray[np.int64]:
    """Return for each question (Q, 3): right answers, given answers, gold answers."""
    rows = []
    for own, answers in zip(found, gold, strict=True):
        given = [text for text, probability in own.items() if probability >= threshold]
        right = sum(any(text in given for text in answer) for answer in answers)
        rows.append((right, len(given), len(answers)))
    return np.array(rows)


def scores_of(table: NDArray[np.int64]) -> tuple[float, float, float]:
    """Return precision, recall and F1 in percent."""
    right, given, gold = table.sum(axis=0).tolist()
    f1 = 2 * right / max(given + gold, 1)
    return 100 * right / max(given, 1), 100 * right / gold, 100 * f1


def old_predictions(contexts: Sequence[Context]) -> Predictions:
    """Return what the span head of 0.1.0 reads, by shares of the likeliest: the control.

    It scores begins and ends in one softmax each per window, and takes the eight likeliest spans.
    """
    tokenizer = read_tokenizer(BUNDLED_MODEL)
    model = OnnxModel(BUNDLED_MODEL / ENCODER_FILE, 0)
    inputs = (one_text(one.prompt.ids) | {EXACT_INPUT: np.array(False)} for one in contexts)
    found: Predictions = [{} for _ in range(contexts[-1].question + 1)]
    for context, (logits,) in zip(contexts, model.read(["answers"], inputs), strict=True):
        scores = logits[0, context.prompt.text : -1].astype(np.float64)
        begins, ends = (scores - np.log(np.exp(scores).sum(axis=0))).T
        sums = begins[:, None] + ends
        allowed = np.triu(np.ones_like(sums, dtype=np.bool_))
        allowed &= ~np.triu(np.ones_like(allowed), k=_OLD_LONGEST)
        flat = np.where(allowed, sums, -np.inf).ravel()
        own, ids = found[context.question], context.prompt.passage
        for at in np.argsort(-flat)[:_OLD_SPANS].tolist():
            first, last = divmod(at, len(begins))
            text = normalize_answer(tokenizer.decode(ids[first : last + 1]))
            if text:
                own[text] = own.get(text, 0.0) + float(np.exp(flat[at]))
    for own in found:
        top = max(own.values(), default=1.0)
        own.update({text: share / top for text, share in own.items()})
    return found


def report(found: Predictions, contexts: Sequence[Context]) -> Scores:
    """Score predictions: the threshold from the even questions, the numbers from the odd ones."""
    gold: list[tuple[frozenset[str], ...]] = [()] * len(found)
    for context in contexts:
        gold[context.question] = context.answers
    by_threshold = {one: counts(found, gold, one) for one in THRESHOLDS.tolist()}
    dev = {one: scores_of(table[0::2])[2] for one, table in by_threshold.items()}
    best = max(dev, key=lambda one: dev[one])
    test = by_threshold[best][1::2]
    chance = np.random.default_rng(0)
    samples = [scores_of(test[chance.integers(0, len(test), len(test))]) for _ in range(_SAMPLES)]
    bounds = np.percentile(samples, [2.5, 97.5], axis=0).T.tolist()
    precision, recall, f1 = (
        (value, low, high) for value, (low, high) in zip(scores_of(test), bounds, strict=True)
    )
    return Scores(precision, recall, f1, len(test), best, dev[best])
