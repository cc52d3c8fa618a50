"""Train the bundled encoder on Wikipedia and on other kinds of text, taught by mpnet-base.

Needs: one GPU with 80 GB, 16 cores, 25 minutes; torch, numpy, tokenizers, safetensors. A folder
WEIGHTS with Hugging Face folders of all-MiniLM-L6-v2 (`minilm`), all-mpnet-base-v2 with BERT's
order of words (`mpnet`) and the encoder of 0.1.0 (`bundled`), made by `recipes/encoder_weights.py`;
INPUT with `bm25.npz` (`recipes/lexical_candidates.py`) and `texts.json`
(`recipes/encoder_texts.py`); the passages, QUESTIONS and DOMAINS as `recipes/fusion.py` has them.

    python -m recipes.encoder prepare mine:bundled teacher mine:teacher student general \\
        --passages passages.tsv.xz --questions QUESTIONS --domains DOMAINS --weights WEIGHTS \\
        --input INPUT --work WORK --out OUT

`prepare` tokenizes; `mine:NAME` finds, among the nearest passages by an encoder and BM25's first,
those with and without answers; `teacher` trains mpnet-base on Wikipedia; `student` trains a small
encoder on Wikipedia, taught by it; `general` continues on all kinds of text, and `without:DOMAIN`
does the same without one of them. `lists:NAME` writes the nearest passages of all texts in
`texts.json`, `codes:NAME` the vectors of all passages in 8 bits, in 32 files. Every stage keeps its
state in WORK.
"""

import argparse
import itertools
import json
import lzma
import multiprocessing
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.pool import Pool
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jpr.models.bert import Bert
from jpr.models.checkpoint import write_checkpoint
from recipes.command_line import parser_of
from recipes.dpr_plus import (
    DEVICE,
    MAX_TEXT,
    MAX_TITLE,
    TEXTS,
    found_in,
    half_weights,
    load_model,
    load_tokenizer,
    save_model,
    say,
)
from recipes.dual_encoder import (
    TokenRows,
    choose_rows,
    distillation_loss,
    encode_rows,
    false_negatives,
    nearest,
    packed_vectors,
    softmax_loss,
)
from recipes.encoder_data import (
    DOMAINS,
    LOOK_ONLY,
    WIKI_TRAIN,
    TrainingQuestion,
    question_file,
    read_questions,
)
from recipes.keyword_queries import KeywordQueries
from recipes.mining import Example, mine

WIKI = "wikipedia"
DEPTH, MINED = 300, 60
HEAD, TAIL = (101,), 102
LONGEST, LONGEST_QUESTION = 192, 96
UNTITLED = 0.15
"""Share of the batches whose passages have no titles, as those of many users have none."""
KEYWORDS = "keywords"
DEFAULTS = {
    "batch": 256,
    "teacher-steps": 1200,
    "teacher-seconds": 340,
    "student-steps": 4000,
    "student-seconds": 280,
    "general-steps": 800,
    "general-seconds": 60,
}
_CODES_PARTS = 32
_COMPILED, _TIMED = 10, 50
"""Steps after which kernels are compiled, and the pace is known: within the warm-up."""


@dataclass(frozen=True, slots=True)
class Training:
    """Settings of one training."""

    steps: int
    seconds: float
    """At most this long: a slower device trains fewer steps."""
    learning_rate: float
    shares: dict[str, float]
    """How often a batch is of each group."""
    hard: int = 2
    scale: float = 20.0
    teacher_weight: float = 0.7
    teacher_scale: float = 50.0
    batch: int = 256
    warmup: int = 100
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Teacher:
    """Vectors of a larger encoder: of a group's questions, and of passages from `first` on."""

    questions: Tensor
    passages: Tensor
    first: int


@dataclass(frozen=True, slots=True)
class Group:
    """Training questions whose passages are in one corpus, so that they share negatives."""

    rows: range
    questions: TokenRows
    examples: list[Example]
    weights: list[float]
    teacher: Teacher | None = None

    def batch(self, training: Training, chance: random.Random) -> "Batch":
        """Sample questions and their passages."""
        numbers = range(len(self.examples))
        n = min(training.batch, len(self.examples))
        sampled = list(dict.fromkeys(chance.choices(numbers, self.weights, k=n)))
        examples = [self.examples[i] for i in sampled]
        local = choose_rows(examples, training.hard, len(self.rows), chance)
        excluded = torch.from_numpy(false_negatives(examples, local))
        asked = torch.tensor(sampled, device=DEVICE)
        rows = torch.tensor(local, device=DEVICE) + self.rows.start
        ids, lengths = self.questions.packed(asked, LONGEST_QUESTION)
        scores = None
        if self.teacher is not None:
            theirs = self.teacher.passages[rows - self.teacher.first].float()
            scores = self.teacher.questions[asked].float() @ theirs.T
        return Batch(ids, lengths, rows, excluded.to(DEVICE), scores)


@dataclass(frozen=True, slots=True)
class Batch:
    """Questions, their positives in the same order and then negatives."""

    ids: Tensor
    lengths: Tensor
    rows: Tensor
    excluded: Tensor
    teacher_scores: Tensor | None


def keyword_batch(queries: KeywordQueries, training: Training, chance: random.Random) -> Batch:
    """Sample passages with queries made of their own words; their neighbors are hard negatives."""
    n = len(queries)
    own = chance.sample(range(1, n - 1), training.batch)
    near = [row + chance.choice((-1, 1)) for row in own]
    far = [chance.randrange(n) for _ in own]
    asked = TokenRows.of([queries.sample(row, chance) for row in own], HEAD, TAIL).to(DEVICE)
    everything = torch.arange(len(own), device=DEVICE)
    ids, lengths = asked.packed(everything, LONGEST_QUESTION)
    places: dict[int, list[int]] = {}
    rows = [*own, *near, *far]
    for place, row in enumerate(rows):
        places.setdefault(row, []).append(place)
    excluded = torch.zeros(len(own), len(rows), dtype=torch.bool)
    for i, row in enumerate(own):  # the passage itself is no negative where it appears again
        for place in places[row]:
            excluded[i, place] = place != i
    return Batch(ids, lengths, torch.tensor(rows, device=DEVICE), excluded.to(DEVICE), None)


def schedule(name: str, training: Training) -> Iterator[tuple[int, float]]:
    """Yield each step with its share of the learning rate; fewer steps where they take long."""
    begin, warm, steps = time.perf_counter(), 0.0, training.steps
    for step in itertools.count():
        if step == _COMPILED:
            warm = time.perf_counter()
        if step == _TIMED:
            pace = (time.perf_counter() - warm) / (_TIMED - _COMPILED)
            left = training.seconds - (time.perf_counter() - begin)
            steps = min(steps, step + int(left / pace))
            say(f"{name}: {steps} steps of {pace:.3f} s")
        if step >= steps:
            return
        yield step, max(min((step + 1) / training.warmup, 1 - step / steps), 0.02)


def train(
    name: str,
    model: Bert,
    passages: tuple[TokenRows, TokenRows],
    groups: dict[str, Group],
    queries: KeywordQueries,
    training: Training,
) -> None:
    """Train one tower for questions and passages, in place."""
    torch.manual_seed(training.seed)
    chance = random.Random(training.seed)
    model.train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=training.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    names, shares = zip(*training.shares.items(), strict=True)
    recent: dict[str, list[float]] = {}
    for step, slope in schedule(name, training):
        for settings in optimizer.param_groups:
            settings["lr"] = training.learning_rate * slope
        (group,) = chance.choices(names, shares)
        if group == KEYWORDS:
            batch = keyword_batch(queries, training, chance)
        else:
            batch = groups[group].batch(training, chance)
        loss = loss_of(model, passages[chance.random() < UNTITLED], batch, training)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch types it loosely
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            recent.setdefault(group if group in (WIKI, KEYWORDS) else "others", []).append(
                loss.item()
            )
        if step % 200 == 199:
            shown = {key: round(float(np.mean(found)), 3) for key, found in recent.items()}
            say(name, step + 1, shown)
            recent.clear()
    model.eval()


def loss_of(model: Bert, passages: TokenRows, batch: Batch, training: Training) -> Tensor:
    """Return the cross-entropy of the positives, mixed with the teacher's distribution."""
    n = len(batch.lengths)
    ids, lengths = passages.packed(batch.rows, LONGEST)
    q = packed_vectors(model, batch.ids, batch.lengths)
    scores = training.scale * q @ packed_vectors(model, ids, lengths).T
    loss = softmax_loss(scores, torch.arange(n, device=DEVICE), batch.excluded)
    if batch.teacher_scores is None or not training.teacher_weight:
        return loss
    taught = distillation_loss(scores, training.teacher_scale * batch.teacher_scores)
    return (1 - training.teacher_weight) * loss + training.teacher_weight * taught


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


ONLY_DOMAINS = "-domains"


def groups_of(
    options: argparse.Namespace,
    corpora: Corpora,
    mined_by: str,
    names: Sequence[str],
    taught: bool,
) -> dict[str, Group]:
    """Return the training questions of these corpora, with a teacher's vectors."""
    records: dict[str, list[tuple[list[list[int]], list[int], list[int]] | None]] = {}
    with (options.work / f"examples-{mined_by}.jsonl").open() as stream:
        for line in stream:
            data, record = json.loads(line)
            records.setdefault(data, []).append(record)
    kept: dict[str, list[tuple[TrainingQuestion, Example, float]]] = {}
    for data, corpus, asked in training_sets(options):
        factor = WIKI_TRAIN.get(data, 1.0)
        for one, record in zip(asked, records[data], strict=True):
            if corpus in names and record is not None:
                positives, hard, holding = record
                example = Example(tuple(map(tuple, positives)), tuple(hard), frozenset(holding))
                kept.setdefault(corpus, []).append((one, example, factor * one.weight))
    found = {}
    for corpus, rows in kept.items():
        asked, examples, weights = (list(part) for part in zip(*rows, strict=True))
        texts = corpora.questions([one.text for one in asked])
        teacher = _teacher(options, corpora, corpus, texts) if taught else None
        found[corpus] = Group(corpora.ranges[corpus], texts, examples, weights, teacher)
    say({corpus: len(group.examples) for corpus, group in found.items()})
    return found


def _teacher(
    options: argparse.Namespace, corpora: Corpora, corpus: str, texts: TokenRows
) -> Teacher:
    """Return the teacher of a corpus: ours for Wikipedia, elsewhere mpnet as it comes.

    So no question of a domain that is left out has taught anybody.
    """
    name, only = ("teacher", "") if corpus == WIKI else ("mpnet", ONLY_DOMAINS)
    model = load_named(options, name)
    passages = encoded(options, corpora, name, model, only)
    return Teacher(
        encode_rows(model, texts), passages, 0 if not only else corpora.ranges[WIKI].stop
    )


def teacher(options: argparse.Namespace, corpora: Corpora) -> None:
    """Train mpnet-base on Wikipedia."""
    groups = groups_of(options, corpora, "bundled", [WIKI], taught=False)
    model = load_model(options.weights / "mpnet", dropout=0.1)
    training = Training(
        options.teacher_steps, options.teacher_seconds, 2e-5, {WIKI: 1.0},
        hard=1, scale=50.0, batch=options.batch, seed=1,
    )  # fmt: skip
    train("teacher", model, corpora.both, groups, corpora.keyword_queries(), training)
    write_checkpoint(options.work / "teacher", asdict(model.config), half_weights(model))


def student(options: argparse.Namespace, corpora: Corpora) -> None:
    """Train the small encoder on Wikipedia, from between the one of 0.1.0 and MiniLM-L6."""
    groups = groups_of(options, corpora, "teacher", [WIKI], taught=True)
    model = load_model(options.weights / "bundled", dropout=0.1)
    other = load_model(options.weights / "minilm").state_dict()
    mean = {name: (weight + other[name]) / 2 for name, weight in model.state_dict().items()}
    model.load_state_dict(mean)
    training = Training(
        options.student_steps, options.student_seconds, 5e-5, {WIKI: 0.85, KEYWORDS: 0.15},
        batch=options.batch, seed=3,
    )  # fmt: skip
    train("student", model, corpora.both, groups, corpora.keyword_queries(), training)
    save_model(options, "student", model)


def general(options: argparse.Namespace, corpora: Corpora, without: str = "") -> None:
    """Continue on all kinds of text, or on all but one."""
    name = f"without-{without}" if without else "general"
    trained_on = [WIKI, *(domain for domain in DOMAINS if domain not in (without, LOOK_ONLY))]
    groups = groups_of(options, corpora, "teacher", trained_on, taught=True)
    domains = [domain for domain in groups if domain != WIKI]
    roots = {domain: len(groups[domain].examples) ** 0.5 for domain in domains}
    shares = {domain: 0.45 * root / sum(roots.values()) for domain, root in roots.items()}
    model = load_model(options.work / "student", dropout=0.1)
    training = Training(
        options.general_steps, options.general_seconds, 3e-5,
        {WIKI: 0.42, KEYWORDS: 0.13, **shares},
        batch=options.batch, teacher_weight=0.5, seed=4,
    )  # fmt: skip
    train(name, model, corpora.both, groups, corpora.keyword_queries(), training)
    if without:
        write_checkpoint(options.work / name, asdict(model.config), half_weights(model))
    else:
        save_model(options, name, model)


def lists(options: argparse.Namespace, corpora: Corpora, name: str, pool: Pool) -> None:
    """Write the nearest passages of evaluation texts; print MRecall@5 of development sets.

    Those of Wikipedia's texts; of an encoder that was trained without a domain, those of this
    domain's development sets and of the training sets of the others.
    """
    model = load_named(options, name)
    sets = json.loads((options.input / "texts.json").read_text())
    left_out = name.partition("without-")[2]
    whole = not left_out
    vectors = encoded(options, corpora, name, model, "" if whole else ONLY_DOMAINS)
    first = 0 if whole else corpora.ranges[WIKI].stop
    found: dict[str, dict[str, NDArray[np.generic]]] = {}
    for data, one in sets.items():
        if one["corpus"] == WIKI and not whole:
            continue
        rows = corpora.ranges[one["corpus"]]
        part = vectors[rows.start - first : rows.stop - first]
        near, scores = nearest(encode_rows(model, corpora.questions(one["texts"])), part, DEPTH)
        kind = WIKI if one["corpus"] == WIKI else data.rpartition(".")[2]
        if kind == WIKI if whole else (kind == "dev") == (one["corpus"] == left_out):
            kept = found.setdefault(kind, {})
            kept[f"{data}:rows"], kept[f"{data}:scores"] = near.numpy(), scores.numpy().astype("f2")
        if one["shown"]:
            show(options, name, data, rows.start, near.numpy(), pool)
    for kind, arrays in found.items():
        np.savez_compressed(options.out / f"{name}.{kind}.npz", allow_pickle=False, **arrays)


def show(
    options: argparse.Namespace,
    name: str,
    data: str,
    first: int,
    near: NDArray[np.int32],
    pool: Pool,
) -> None:
    """Print MRecall@5 as ranked and by the oracle of 100, all and several answers."""
    folder = options.questions if first == 0 else options.domains
    sets = json.loads((options.input / "texts.json").read_text())
    shown, places = set(sets[data]["shown"]), sets[data]["places"]
    asked = [one for one in read_questions(question_file(folder, data))
             if one.question.id in shown]  # fmt: skip
    tasks = [
        (one.question, (near[places[one.question.id]][:100] + first).tolist(), False)
        for one in asked
    ]
    results = pool.map(found_in, tasks, chunksize=64)
    lines = []
    for one, found in zip(asked, results, strict=True):
        n = len(one.question.answers)
        need = min(5, n)
        five = len({answer for held in found[:5] for answer in held}) >= need
        best = len({answer for held in found for answer in held}) >= need
        lines.append((n > 1, five, best))
    table = np.array(lines, dtype=float)
    several = table[table[:, 0] > 0]
    cells = [100 * part.mean(0)[1:] for part in (table, several) if len(part)]
    say(f"{name} {data}: MRecall@5 and oracle", *(cell.round(1).tolist() for cell in cells))


def codes(options: argparse.Namespace, name: str) -> None:
    """Write the vectors of all passages to WORK, each dimension in 256 steps of its range."""
    vectors = np.load(options.work / f"vectors-{name}.npy", mmap_mode="r")
    sample = np.asarray(vectors[::10], dtype=np.float32)
    low, high = sample.min(axis=0), sample.max(axis=0)
    folder = options.work / f"codes-{name}"
    folder.mkdir(exist_ok=True)
    np.save(folder / "range.npy", np.stack([low, high]))
    cuts = np.linspace(0, len(vectors), _CODES_PARTS + 1, dtype=np.int64)
    for i, (start, end) in enumerate(itertools.pairwise(cuts)):
        part = (np.asarray(vectors[start:end], dtype=np.float32) - low) / (high - low) * 255
        np.save(folder / f"codes.{i:02}.npy", part.round().clip(0, 255).astype(np.uint8))


def main() -> None:
    """Run the stages that were asked for."""
    parser = parser_of(__doc__)
    parser.add_argument("stages", nargs="+")
    for name in ("passages", "questions", "domains", "weights", "input", "work", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name, default in DEFAULTS.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    stages = list(options.stages)
    if stages[0] == "prepare":
        prepare(options)
        stages.pop(0)
    else:
        load_texts(options.work)
    load_ids(options)
    with multiprocessing.get_context("fork").Pool() as pool:
        corpora = Corpora(options)
        for stage in stages:
            say("stage", stage)
            run_stage(stage, options, corpora, pool)
            if DEVICE == "cuda":
                torch.cuda.empty_cache()
    described = {
        "stages": options.stages,
        "options": {k: v for k, v in vars(options).items() if isinstance(v, int)},
        "versions": {"torch": torch.__version__, "numpy": np.__version__},
        "device": torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU",
    }
    (options.out / "manifest.json").write_text(json.dumps(described, indent=1) + "\n")


def run_stage(stage: str, options: argparse.Namespace, corpora: Corpora, pool: Pool) -> None:
    """Run one stage."""
    kind, _, name = stage.partition(":")
    if kind == "mine":
        mined(options, corpora, name, pool)
    elif kind == "lists":
        lists(options, corpora, name, pool)
    elif kind == "codes":
        codes(options, name)
    elif kind == "teacher":
        teacher(options, corpora)
    elif kind == "student":
        student(options, corpora)
    else:
        general(options, corpora, name)


if __name__ == "__main__":
    main()
