"""All passages that `recipes/encoder.py` trains on: unpacked, tokenized, on the device.

Wikipedia's passages come first, then those of each domain.
"""

import argparse
import json
import lzma
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from jpr.models.bert import Bert
from recipes.dpr_plus import DEVICE, MAX_TEXT, MAX_TITLE, TEXTS, load_model, load_tokenizer, say
from recipes.dual_encoder import TokenRows, encode_rows
from recipes.encoder_data import (
    DOMAINS,
    LOOK_ONLY,
    WIKI_TRAIN,
    TrainingQuestion,
    question_file,
    read_questions,
)
from recipes.encoder_training import HEAD, TAIL, WIKI
from recipes.keyword_queries import KeywordQueries

ONLY_DOMAINS = "-domains"


class Corpora:
    """All passages on the device: Wikipedia's, then those of each domain."""

    def __init__(self, options: argparse.Namespace) -> None:
        work = options.work
        ranges = json.loads((work / "corpora.json").read_text())
        self.ranges = {name: range(*ends) for name, ends in ranges.items()}
        self.ids, self.lengths, self.titles = (
            np.load(work / f"{name}.npy") for name in ("ids", "lengths", "titles")
        )
        self.passages = TokenRows.flat(self.ids, self.lengths, HEAD, TAIL).to(DEVICE)
        untitled = self.passages.without(torch.from_numpy(self.titles))
        self.both = self.passages, untitled
        self.tokenizer = load_tokenizer(options.weights / "minilm")

    def questions(self, texts: Sequence[str]) -> TokenRows:
        """Tokenize questions."""
        found = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return TokenRows.of([encoding.ids for encoding in found], HEAD, TAIL).to(DEVICE)

    def of(self, name: str) -> TokenRows:
        """Return the passages of a corpus."""
        rows, whole = self.ranges[name], self.passages
        ends = whole.starts[rows.start : rows.stop], whole.ends[rows.start : rows.stop]
        return TokenRows(whole.ids, *ends, whole.around)

    def keyword_queries(self) -> KeywordQueries:
        """Return the maker of queries from Wikipedia's passages."""
        n = len(self.ranges[WIKI])
        vocabulary = self.tokenizer.get_vocab()
        inner = [id for word, id in vocabulary.items() if word.startswith("##")]
        return KeywordQueries(self.ids, self.lengths[:n], self.titles[:n], inner)


def prepare(options: argparse.Namespace) -> None:
    """Unpack and tokenize all passages."""
    options.work.mkdir(parents=True, exist_ok=True)
    ranges = {}
    with (options.work / "passages.jsonl").open("w") as out:
        written = 0
        for name, passages in corpora_of(options):
            first = written
            for title, text in passages:
                out.write(json.dumps([title, text]) + "\n")
                written += 1
            ranges[name] = [first, written]
    (options.work / "corpora.json").write_text(json.dumps(ranges))
    load_texts(options.work)
    say(ranges)
    tokenizer = load_tokenizer(options.weights / "minilm")
    (dot,) = tokenizer.encode(".", add_special_tokens=False).ids
    flat, lengths, before = [], [], []
    for i in range(0, len(TEXTS), 50_000):
        titles, texts = zip(*TEXTS[i : i + 50_000], strict=True)
        heads = tokenizer.encode_batch_fast(titles, add_special_tokens=False)
        bodies = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        for above, body in zip(heads, bodies, strict=True):
            head = [*above.ids[:MAX_TITLE], dot] if above.ids else []
            flat.append(np.array(head + body.ids[:MAX_TEXT], dtype=np.uint16))
            lengths.append(len(flat[-1]))
            before.append(len(head))
    for name, array in (("ids", np.concatenate(flat)), ("lengths", lengths), ("titles", before)):
        np.save(options.work / f"{name}.npy", np.asarray(array))
    say(sum(lengths), "tokens")


def corpora_of(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    """Yield the name and the (title, text) of the passages of every corpus."""
    yield WIKI, _tsv(options.passages)
    for name in DOMAINS:
        path = options.domains / f"{name}.passages.jsonl.xz"
        with lzma.open(path, "rt", encoding="utf-8") as stream:
            records = map(json.loads, stream)
            yield name, ((record["title"], record["text"]) for record in records)


def _tsv(path: Path) -> Iterator[tuple[str, str]]:
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as stream:
        for line in stream:
            _, text, title, *_ = line.rstrip("\n").split("\t")
            yield title, text


def load_texts(work: Path) -> None:
    """Fill TEXTS, before processes are forked."""
    with (work / "passages.jsonl").open() as stream:
        TEXTS.extend(tuple(json.loads(line)) for line in stream)


def training_sets(options: argparse.Namespace) -> Iterator[tuple[str, str, list[TrainingQuestion]]]:
    """Yield the name, the corpus and the questions of every training set."""
    for name in WIKI_TRAIN:
        yield name, WIKI, read_questions(question_file(options.questions, name))
    for domain in DOMAINS:
        for name in (domain, f"{domain}_parts"):
            path = question_file(options.domains, f"{name}.train")
            if path.exists() and domain != LOOK_ONLY:
                yield name, domain, read_questions(path)


def load_named(options: argparse.Namespace, name: str, dropout: float = 0.0) -> Bert:
    """Load an encoder that a stage made, or one that came with the inputs."""
    made = options.work / name
    return load_model(made if made.exists() else options.weights / name, dropout)


def encoded(
    options: argparse.Namespace, corpora: Corpora, name: str, model: Bert, only: str = ""
) -> Tensor:
    """Encode all passages, or those of the domains, or take what an earlier stage made."""
    path = options.work / f"vectors-{name}{only}.npy"
    if path.exists():
        return torch.from_numpy(np.load(path)).to(DEVICE)
    begin = time.perf_counter()
    texts = corpora.passages
    if only:
        first = corpora.ranges[WIKI].stop
        texts = TokenRows(texts.ids, texts.starts[first:], texts.ends[first:], texts.around)
    vectors = encode_rows(model, texts)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    say(f"{name}: {len(texts)} passages encoded in {time.perf_counter() - begin:.1f} s")
    np.save(path, vectors.cpu().numpy())
    return vectors
