"""Fit a span head to the bundled joint model, whose encoder stays as it is.

Needs: half an hour of two cores, no GPU; torch. A lexical index of the Wikipedia passages (`jpr
index passages.tsv.xz --encoder none --out wiki-bm25`), QUESTIONS with the sets of questions over
them and MultiSpanQA's validation set, and DOMAINS with the files that `recipes/domains.py`
describes.

    python -m recipes.span_head QUESTIONS DOMAINS --wiki wiki-bm25 --work WORK --out spans.npz

Marks the answers of training questions in passages (`recipes/span_pairs.py`), encodes these with
the bundled model, trains the head on the vectors, and scores it on MultiSpanQA with gold contexts:
the even questions choose the threshold, the odd ones are the test; the last row was trained on the
even ones, too. WORK keeps pairs and vectors. The head of 0.1.0 is the control.
"""

import argparse
import itertools
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from jpr.encode.onnx_session import OnnxModel, one_text
from jpr.evaluation.evaluation import ALL
from jpr.io.atomic import publish_path
from jpr.io.manifest import commit, manifest
from jpr.models.heads import SpanHead
from jpr.models.joint_config import ENCODER_FILE, EXACT_INPUT
from jpr.models.onnx_export import span_weights
from jpr.rerank.joint import BUNDLED_MODEL
from recipes.command_line import results_parser
from recipes.multi_span import Scores, load_contexts, old_predictions, predictions, report
from recipes.report import Record, save_records
from recipes.span_pairs import make_pairs

NAME, DATA = "span-head", "multispanqa_valid, odd questions"
OLD, NEW, TUNED = "span head of 0.1.0", "span head", "span head, even questions in training"
COMMAND = (
    "python -m recipes.span_head QUESTIONS DOMAINS --wiki wiki-bm25 --work WORK --out spans.npz"
)
ABOUT = (
    "What the bundled model reads off the gold contexts of MultiSpanQA's validation questions, in "
    "windows of 192 tokens: exact matches, over all answers. The threshold of each row is the best "
    "for the even questions; numbers are those of the odd ones. Nothing of the data set is in the "
    "training of the bundled head (`span head`)."
)
WIDTH, SEED = 384, 0
EPOCHS, BATCH, RATE, WARMUP = 3, 32, 1e-3, 100
DROPOUT = 0.1
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Passages as the encoder's vectors of their tokens, and the spans of their answers."""

    vectors: NDArray[np.float16]  # (N, d) passage after passage
    bounds: Ints  # (R + 1,) where each passage begins
    spans: Ints  # (S, 3) passage, ascending; first and last token, counted within it
    firsts: Ints  # (R + 1,) where the spans of each passage begin

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def batch(self, rows: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Return vectors (N, d), a zero vector after each passage; lengths; spans (S, 2)."""
        parts, positives, begin = [], [], 0
        for row in rows:
            own = self.vectors[self.bounds[row] : self.bounds[row + 1]].astype(np.float32)
            parts += [own, np.zeros((1, WIDTH), np.float32)]
            spans = self.spans[self.firsts[row] : self.firsts[row + 1], 1:]
            positives.append(np.stack([spans[:, 0] + begin, spans[:, 1] - spans[:, 0]], axis=1))
            begin += len(own) + 1
        lengths = np.diff(self.bounds)[list(rows)] + 1
        arrays = np.concatenate(parts), lengths, np.concatenate(positives)
        vectors, sizes, marked = map(torch.from_numpy, arrays)
        return vectors, sizes, marked


def encode(name: str, work: Path, prompts: Sequence[tuple[Sequence[int], int]],
           spans: Sequence[Sequence[tuple[int, int]]]) -> None:  # fmt: skip
    """Write the vectors of the passages' tokens, and where their answers are."""
    model = OnnxModel(BUNDLED_MODEL / ENCODER_FILE, 0)
    lengths = [len(ids) - 1 - text for ids, text in prompts]
    with publish_path(work / f"{name}.vectors.npy") as path:
        out = np.lib.format.open_memmap(path, "w+", np.float16, (sum(lengths), WIDTH))
        inputs = (one_text(ids) | {EXACT_INPUT: np.array(False)} for ids, _ in prompts)
        at, begin = 0, time.perf_counter()
        for done, ((vectors,), (_, text)) in enumerate(
            zip(model.read(["vectors"], inputs), prompts, strict=True)
        ):
            own = vectors[0, text:-1]
            out[at : at + len(own)] = own
            at += len(own)
            if done % 2000 == 0:
                print(name, done, len(prompts), round(time.perf_counter() - begin), flush=True)
        out.flush()
    flat = [(row, *span) for row, own in enumerate(spans) for span in own]
    np.savez(work / f"{name}.npz", lengths=np.array(lengths), spans=np.array(flat).reshape(-1, 3))


def load(name: str, work: Path) -> Encoded:
    """Open what `encode` wrote."""
    with np.load(work / f"{name}.npz") as arrays:
        lengths, spans = arrays["lengths"], arrays["spans"].astype(np.int64)
    bounds = np.append(0, lengths.cumsum())
    firsts = np.searchsorted(spans[:, 0], np.arange(len(lengths) + 1))
    vectors = np.load(work / f"{name}.vectors.npy", mmap_mode="r")
    return Encoded(vectors, bounds, spans, firsts)


def loss_of(head: SpanHead, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Return the binary cross-entropy of all spans, summed, a passage on average."""
    vectors, lengths, positives = batch
    dropped = torch.nn.functional.dropout(vectors, DROPOUT)
    logits = head(dropped, lengths, torch.zeros_like(lengths))
    short = positives[positives[:, 1] < logits.shape[1]]
    targets = torch.zeros_like(logits)
    targets[short[:, 0], short[:, 1]] = 1.0
    valid = logits > -torch.inf
    loss = binary_cross_entropy_with_logits(logits[valid], targets[valid], reduction="sum")
    return loss / len(lengths)


def train(head: SpanHead, sets: Sequence[tuple[Encoded, Sequence[int]]], epochs: int,
          rate: float) -> None:  # fmt: skip
    """Train the head on some passages of each set."""
    chance = random.Random(SEED)
    everything = [(one, row) for one, rows in sets for row in rows]
    steps = epochs * (len(everything) // BATCH)
    optimizer = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=0.01)
    begin, losses = time.perf_counter(), []
    for step, rows in enumerate(itertools.islice(_batches(everything, chance), steps)):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / WARMUP, max(0.02, 1 - step / steps))
        by_set = {id(one): one for one, _ in rows}
        loss = torch.stack([
            loss_of(head, one.batch([row for of, row in rows if of is one]))
            for one in by_set.values()
        ]).mean()  # fmt: skip
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch types it loosely
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 200 == 199:
            mean, seconds = np.mean(losses[-200:]), time.perf_counter() - begin
            print(f"step {step + 1} of {steps}: loss {mean:.3f}, {seconds:.0f} s", flush=True)


def _batches(
    everything: list[tuple[Encoded, int]], chance: random.Random
) -> Iterator[list[tuple[Encoded, int]]]:
    while True:
        chance.shuffle(everything)
        for first in range(0, len(everything) - BATCH + 1, BATCH):
            yield everything[first : first + BATCH]


def records(rows: dict[str, Scores]) -> Iterator[Record]:
    """Yield the published numbers."""
    for system, scores in rows.items():
        for measure in ("precision", "recall", "f1"):
            value, low, high = getattr(scores, measure)
            name = f"exact match {measure.replace('f1', 'F1')}"
            yield Record(NAME, system, DATA, name, ALL, 0, value, low, high, scores.n, commit())


def prepare(options: argparse.Namespace) -> None:
    """Make pairs and vectors, unless WORK has them."""
    options.work.mkdir(parents=True, exist_ok=True)
    if not (options.work / "train.npz").exists():
        pairs = make_pairs(options.wiki, options.questions, options.domains, SEED)
        print(f"{len(pairs)} pairs, {sum(bool(one.spans) for one in pairs)} with answers")
        prompts = [(one.prompt.ids, one.prompt.text) for one in pairs]
        encode("train", options.work, prompts, [one.spans for one in pairs])
    if not (options.work / "contexts.npz").exists():
        contexts = load_contexts(options.questions / "multispanqa_valid.jsonl")
        prompts = [(one.prompt.ids, one.prompt.text) for one in contexts]
        encode("contexts", options.work, prompts, [one.spans for one in contexts])


def main() -> None:
    """Train the head and score it."""
    parser = results_parser(__doc__, "questions", "domains")
    for name in ("wiki", "work", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args()
    begin = time.perf_counter()
    prepare(options)
    torch.manual_seed(SEED)
    head = SpanHead(WIDTH)
    own = load("train", options.work)
    train(head, [(own, range(len(own)))], EPOCHS, RATE)
    span_weights(head).write(options.out)
    file = options.questions / "multispanqa_valid.jsonl"
    contexts, encoded = load_contexts(file), load("contexts", options.work)
    rows = {OLD: report(old_predictions(contexts), contexts)}
    rows[NEW] = report(predictions(head, contexts, encoded), contexts)
    even = [row for row, one in enumerate(contexts) if one.question % 2 == 0]
    train(head, [(encoded, even)], EPOCHS, RATE / 5)
    rows[TUNED] = report(predictions(head, contexts, encoded), contexts)
    made = manifest(COMMAND, {file.name: file, "spans.npz": options.out},
                    time.perf_counter() - begin, packages=("torch", "onnxruntime"))  # fmt: skip
    thresholds = {name: round(scores.threshold, 2) for name, scores in rows.items()}
    about = {"about": ABOUT, **made, "seed": SEED, "thresholds": thresholds}
    save_records(options.results, NAME, records(rows), about)


if __name__ == "__main__":
    main()
