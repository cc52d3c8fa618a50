"""DPR⁺ for real: encoders tried as they come, trained with both kinds of negatives, and distilled.

Needs: one GPU with 20 GB, 16 cores, 20 minutes; torch, numpy, tokenizers, safetensors, regex. A
folder WEIGHTS with one Hugging Face folder per encoder (minilm, gte, e5: all-MiniLM-L6-v2,
gte-small, e5-small; one tokenizer.json for all), a folder QUESTIONS with questions in our own
format, the passages as a TSV of id, text, title.

    python -m recipes.dpr_plus prepare minilm gte e5 mine teacher full mine-teacher student \\
        --passages passages.tsv.xz --questions QUESTIONS --weights WEIGHTS --work WORK --out OUT

Each stage keeps its state in WORK, so that stages can be run separately. OUT gets, per encoder,
the 300 nearest passages of each evaluation question (`NAME.npz`), the student's weights in files of
at most 15 MB, and a manifest. `recipes/first_stage.py` makes the published numbers from them. The
stages `codes0` … `codes7` put out the passages' vectors in 8 bits, an eighth each.
"""

import argparse
import itertools
import json
import lzma
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import asdict
from multiprocessing.pool import Pool
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from jpr.models.bert import Bert, from_hugging_face, to_hugging_face
from jpr.models.checkpoint import read_checkpoint, write_checkpoint
from jpr.models.config import BertConfig
from jpr.text import AnswerMatcher
from jpr.types import Question
from recipes.command_line import parser_of
from recipes.dual_encoder import (
    Data,
    DualConfig,
    Log,
    Teacher,
    TokenRows,
    encode_rows,
    nearest,
    train_distant,
    train_full,
)
from recipes.mining import Example, mine

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PROMPTS = {"e5": ("query: ", "passage: "), "teacher": ("query: ", "passage: ")}
DEPTH = 300
_PART = 15_000_000
DEVELOPMENT = ("ambignq_dev", "webquestions_dev")
TEST = ("webqsp_test", "trec_test")
TRAIN = {"ambignq_train": 4.0, "webquestions_train": 3.0, "trec_train": 2.0, "extra_train": 1.0}
LIKE_SEARCH = {"efficientqa": 3.0, "situatedqa_train": 3.0, "mkqa_sample": 3.0}
"""Sources of extra questions that people typed into a search engine, as AmbigNQ's are."""
MAX_TITLE, MAX_TEXT = 32, 220
START = time.perf_counter()
TEXTS: list[tuple[str, str]] = []
"""(title, text) of every passage, for the processes that look for answers."""


def say(*words: object) -> None:
    """Print with the time."""
    print(f"[{time.perf_counter() - START:6.1f}]", *words, flush=True)


def read_questions(path: Path) -> list[tuple[Question, str]]:
    """Read questions in our own format, with their source where one is named."""
    opener = lzma.open if path.suffix == ".xz" else open
    found = []
    with opener(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            record = json.loads(line)
            answers = (tuple(a for a in group if a) for group in record["answers"])
            kept = tuple(group for group in answers if group)
            question = Question(str(record["id"]), record["question"], kept)
            found.append((question, str(record.get("source", ""))))
    return found


def question_file(folder: Path, name: str) -> Path:
    """Return the file of a set, packed or not."""
    packed = folder / f"{name}.jsonl.xz"
    return packed if packed.exists() else folder / f"{name}.jsonl"


def load_texts(work: Path) -> None:
    """Fill TEXTS, before processes are forked."""
    with (work / "passages.tsv").open(encoding="utf-8", newline="\n") as stream:
        for line in stream:
            _, text, title, *_ = line.rstrip("\n").split("\t")
            TEXTS.append((title, text))


def found_in(task: tuple[Question, Sequence[int], bool]) -> list[tuple[int, ...]]:
    """Tell which answers each passage holds."""
    question, rows, strict = task
    matcher = AnswerMatcher(question, strict=strict)
    return [matcher.found_in(*TEXTS[row]) for row in rows]


def prepare(options: argparse.Namespace) -> None:
    """Unpack and tokenize the passages."""
    packed = options.passages.read_bytes()
    text = lzma.decompress(packed) if options.passages.suffix == ".xz" else packed
    (options.work / "passages.tsv").write_bytes(text)
    del packed, text
    load_texts(options.work)
    say(len(TEXTS), "passages unpacked")
    tokenizer = load_tokenizer(options.weights)
    (dot,) = tokenizer.encode(".", add_special_tokens=False).ids
    flat, lengths = [], []
    for i in range(0, len(TEXTS), 50_000):
        titles, texts = zip(*TEXTS[i : i + 50_000], strict=True)
        for title, body in zip(
            tokenizer.encode_batch_fast(titles, add_special_tokens=False),
            tokenizer.encode_batch_fast(texts, add_special_tokens=False),
            strict=True,
        ):
            before = [*title.ids[:MAX_TITLE], dot] if title.ids else []
            ids = np.array(before + body.ids[:MAX_TEXT], dtype=np.uint16)
            flat.append(ids)
            lengths.append(len(ids))
    np.save(options.work / "ids.npy", np.concatenate(flat))
    np.save(options.work / "lengths.npy", np.array(lengths))
    say(sum(lengths), "tokens")


def load_tokenizer(weights: Path) -> Tokenizer:
    """Load the one tokenizer of all encoders, without padding or truncation."""
    tokenizer = Tokenizer.from_file(str(weights / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def passage_rows(options: argparse.Namespace, name: str) -> TokenRows:
    """Return all passages as an encoder wants them."""
    tokenizer = load_tokenizer(options.weights)
    head, tail = _around(tokenizer, PROMPTS.get(name, ("", ""))[1])
    ids, lengths = np.load(options.work / "ids.npy"), np.load(options.work / "lengths.npy")
    return TokenRows.flat(ids, lengths, head, tail).to(DEVICE)


def question_rows(options: argparse.Namespace, name: str, texts: list[str]) -> TokenRows:
    """Return questions as an encoder wants them."""
    tokenizer = load_tokenizer(options.weights)
    head, tail = _around(tokenizer, PROMPTS.get(name, ("", ""))[0])
    found = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return TokenRows.of([encoding.ids for encoding in found], head, tail).to(DEVICE)


def _around(tokenizer: Tokenizer, prompt: str) -> tuple[tuple[int, ...], int]:
    first, *middle, last = tokenizer.encode(prompt).ids
    return (first, *middle), last


def load_model(folder: Path, dropout: float = 0.0) -> Bert:
    """Load an encoder."""
    described, weights = read_checkpoint(folder)
    config = BertConfig.from_dict(described)
    model = Bert(config, dropout)
    model.load_state_dict({k: w.float() for k, w in from_hugging_face(weights, config).items()})
    return model.to(DEVICE)


def half_weights(model: Bert) -> dict[str, torch.Tensor]:
    """Return a model's weights in 16 bits under Hugging Face's names."""
    named = to_hugging_face(model.state_dict(), model.config)
    return {key: weight.half().cpu() for key, weight in named.items()}


def save_model(options: argparse.Namespace, name: str, model: Bert) -> None:
    """Keep the trained weights, and put them out in pieces that travel."""
    write_checkpoint(options.work / name, asdict(model.config), half_weights(model))
    data = (options.work / name / "model.safetensors").read_bytes()
    for i in range(0, len(data), _PART):
        part = options.out / f"{name}.safetensors.{i // _PART}"
        part.write_bytes(data[i : i + _PART])


def encoded_passages(options: argparse.Namespace, name: str, model: Bert) -> torch.Tensor:
    """Encode the corpus, or take what an earlier stage made."""
    kept = options.work / f"vectors-{name}.npy"
    if kept.exists():
        return torch.from_numpy(np.load(kept)).to(DEVICE)
    rows = passage_rows(options, name)
    begin = time.perf_counter()
    vectors = encode_rows(model, rows)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    tokens = int(rows.lengths(torch.arange(len(rows), device=DEVICE), 256).sum())
    say(f"{name}: {len(rows)} passages, {tokens} tokens encoded in {seconds:.1f} s")
    (options.work / f"{name}.encoding.json").write_text(
        json.dumps({"passages": len(rows), "tokens": tokens, "seconds": seconds})
    )
    np.save(kept, vectors.cpu().numpy())
    return vectors


def lists(
    options: argparse.Namespace, name: str, questions: Bert, vectors: torch.Tensor, pool: Pool
) -> None:
    """Write each evaluation question's nearest passages; show the development sets' coverage."""
    found = {}
    for data in (*DEVELOPMENT, *TEST):
        asked = [q for q, _ in read_questions(question_file(options.questions, data))]
        rows = question_rows(options, name, [q.text for q in asked])
        near, scores = nearest(encode_rows(questions, rows), vectors, DEPTH)
        found[f"{data}.rows"] = near.numpy()
        found[f"{data}.scores"] = scores.numpy().astype(np.float16)
        if data in DEVELOPMENT:
            show(name, data, asked, near.numpy(), pool)
    np.savez(options.out / f"{name}.npz", allow_pickle=False, **found)


def show(name: str, data: str, asked: list[Question], near: np.ndarray, pool: Pool) -> None:
    """Print a glimpse: any answer among 100, best-order MRecall@5, all and several answers."""
    tasks = [(q, rows[:100].tolist(), False) for q, rows in zip(asked, near, strict=True)]
    held = [set().union(*found) for found in pool.map(found_in, tasks, chunksize=64)]
    kept = [(q, h) for q, h in zip(asked, held, strict=True) if q.answers]
    several = [(q, h) for q, h in kept if len(q.answers) > 1]
    share = [
        100 * sum(len(h) >= min(5, len(q.answers)) for q, h in part) / max(1, len(part))
        for part in (kept, several)
    ]
    any_answer = 100 * sum(bool(h) for _, h in kept) / max(1, len(kept))
    say(f"{name} {data}: any@100 {any_answer:.1f}, best MRecall@5 {share[0]:.1f}/{share[1]:.1f}")


def training_questions(options: argparse.Namespace) -> tuple[list[Question], list[float]]:
    """Return all training questions with an answer, and how often each is to be drawn."""
    questions, weights = [], []
    for data, weight in TRAIN.items():
        for question, source in read_questions(question_file(options.questions, data)):
            if question.answers:
                questions.append(question)
                weights.append(weight * LIKE_SEARCH.get(source, 1.0))
    return questions, weights


def mined(options: argparse.Namespace, name: str, folder: Path, pool: Pool) -> None:
    """Find positives and hard negatives among an encoder's 100 nearest passages."""
    questions, _ = training_questions(options)
    model = load_model(folder)
    rows = question_rows(options, name, [q.text for q in questions])
    near, _ = nearest(encode_rows(model, rows), encoded_passages(options, name, model), 100)
    loose = [(q, r.tolist(), False) for q, r in zip(questions, near, strict=True)]
    strict = [(q, r, True) for q, r, _ in loose]
    held = pool.map(found_in, loose, chunksize=256)
    sure = pool.map(found_in, strict, chunksize=256)
    with (options.work / f"examples-{name}.jsonl").open("w") as stream:
        for (_, candidates, _), any_held, sure_held in zip(loose, held, sure, strict=True):
            example = mine(candidates, sure_held)
            doubtful = {r for r, h in zip(candidates, any_held, strict=True) if h}
            record = None
            if example is not None:
                hard = [row for row in example.hard if row not in doubtful]
                record = [example.positives, hard, sorted(example.holding | doubtful)]
            stream.write(json.dumps(record if record and record[1] else None) + "\n")
    say(f"mined with {name}")


def training_data(options: argparse.Namespace, name: str, mined_by: str) -> tuple[Data, list[int]]:
    """Return what can be learnt from, and the numbers of its questions."""
    questions, weights = training_questions(options)
    kept, examples = [], []
    with (options.work / f"examples-{mined_by}.jsonl").open() as stream:
        for number, line in enumerate(stream):
            if (record := json.loads(line)) is not None:
                positives, hard, holding = record
                examples.append(
                    Example(tuple(map(tuple, positives)), tuple(hard), frozenset(holding))
                )
                kept.append(number)
    rows = question_rows(options, name, [questions[i].text for i in kept])
    say(f"{len(kept)} of {len(questions)} questions can be learnt from")
    return Data(rows, examples, [weights[i] for i in kept]), kept


def log_of(name: str) -> Log:
    """Return a log of the loss and the speed."""
    begin = time.perf_counter()

    def log(step: int, loss: float) -> None:
        pace = (time.perf_counter() - begin) / (step + 1)
        say(f"{name} step {step}: loss {loss:.3f}, {pace:.3f} s a step")

    return log


def untrained(options: argparse.Namespace, name: str, pool: Pool) -> None:
    """Take an encoder as it comes."""
    model = load_model(options.weights / name)
    lists(options, name, model, encoded_passages(options, name, model), pool)


def teacher(options: argparse.Namespace, pool: Pool) -> None:
    """Distant negatives, the larger encoder."""
    data, _ = training_data(options, "teacher", "e5")
    config = DualConfig(
        options.teacher_steps, batch=options.batch, learning_rate=2e-5, scale=50.0, seed=1
    )
    model = load_model(options.weights / "e5", dropout=0.1)
    passages = passage_rows(options, "teacher")
    train_distant(model, passages, data, config, log=log_of("teacher"))
    write_checkpoint(options.work / "teacher", asdict(model.config), half_weights(model))
    lists(options, "teacher", model, encoded_passages(options, "teacher", model), pool)


def full(options: argparse.Namespace, pool: Pool) -> None:
    """Full negatives: the question tower against the frozen passages."""
    data, _ = training_data(options, "e5", "e5")
    config = DualConfig(
        options.full_steps, batch=min(128, options.batch), learning_rate=1e-5, scale=50.0, seed=2
    )
    model = load_model(options.weights / "e5", dropout=0.1)
    vectors = encoded_passages(options, "e5", load_model(options.weights / "e5"))
    train_full(model, vectors, data, config, log=log_of("full"))
    PROMPTS["full"] = PROMPTS["e5"]
    lists(options, "full", model, vectors, pool)


def student(options: argparse.Namespace, pool: Pool) -> None:
    """Distant negatives and the teacher's distribution, the smaller encoder."""
    data, kept = training_data(options, "student", "teacher")
    questions, _ = training_questions(options)
    large = load_model(options.work / "teacher")
    rows = question_rows(options, "teacher", [questions[i].text for i in kept])
    taught = Teacher(encode_rows(large, rows), encoded_passages(options, "teacher", large))
    config = DualConfig(
        options.student_steps, batch=options.batch, hard=2, learning_rate=5e-5,
        teacher_weight=0.7, seed=3,
    )  # fmt: skip
    model = load_model(options.weights / "minilm", dropout=0.1)
    passages = passage_rows(options, "student")
    train_distant(
        model,
        passages,
        data,
        config,
        teacher=taught,
        log=log_of("student"),
    )
    save_model(options, "student", model)
    lists(options, "student", model, encoded_passages(options, "student", model), pool)


def codes(options: argparse.Namespace, eighth: int) -> None:
    """Put out an eighth of the student's vectors, each dimension in 256 steps of its range."""
    vectors = np.load(options.work / "vectors-student.npy", mmap_mode="r")
    sample = np.asarray(vectors[::10], dtype=np.float32)
    low, high = sample.min(axis=0), sample.max(axis=0)
    cuts = np.linspace(0, len(vectors), 8 * 4 + 1, dtype=np.int64)[4 * eighth : 4 * eighth + 5]
    np.save(options.out / "range.npy", np.stack([low, high]))
    for i, (start, end) in enumerate(itertools.pairwise(cuts)):
        part = (np.asarray(vectors[start:end], dtype=np.float32) - low) / (high - low) * 255
        np.save(
            options.out / f"codes.{4 * eighth + i:02}.npy",
            part.round().clip(0, 255).astype(np.uint8),
        )


def main() -> None:
    """Run the stages that were asked for."""
    parser = parser_of(__doc__)
    parser.add_argument("stages", nargs="+")
    for name in ("passages", "questions", "weights", "work", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name, default in (
        ("batch", 256),
        ("teacher-steps", 2000),
        ("full-steps", 400),
        ("student-steps", 4000),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    if "prepare" in options.stages:
        prepare(options)
    elif not options.stages[0].startswith("codes"):
        load_texts(options.work)
    with multiprocessing.get_context("fork").Pool() as pool:
        for stage in options.stages:
            say("stage", stage)
            run_stage(stage, options, pool)
            if DEVICE == "cuda":
                torch.cuda.empty_cache()
    describe(options)


def run_stage(stage: str, options: argparse.Namespace, pool: Pool) -> None:
    """Run one stage."""
    if stage.startswith("codes"):
        codes(options, int(stage.removeprefix("codes")))
    elif stage in ("minilm", "gte", "e5"):
        untrained(options, stage, pool)
    elif stage == "mine":
        mined(options, "e5", options.weights / "e5", pool)
    elif stage == "mine-teacher":
        mined(options, "teacher", options.work / "teacher", pool)
    elif stage != "prepare":
        {"teacher": teacher, "full": full, "student": student}[stage](options, pool)


def describe(options: argparse.Namespace) -> None:
    """Write what the run was made with."""
    device = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
    made = {
        "stages": options.stages,
        "options": {k: v for k, v in vars(options).items() if isinstance(v, int)},
        "versions": {"torch": torch.__version__, "numpy": np.__version__},
        "device": device,
        "seconds": round(time.perf_counter() - START, 1),
        "encoding": {
            path.name.partition(".")[0]: json.loads(path.read_text())
            for path in sorted(options.work.glob("*.encoding.json"))
        },
    }
    (options.out / "manifest.json").write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
