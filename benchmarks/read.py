"""Speed of grounded writing, against free writing and against transformers, in one run.

python benchmarks/read.py [--tiny] [--sizes small base] [--commit NAME] [--out FILE.json]

A T5 with random weights reads 10 passages of 200 tokens for each question (tokens as frequent as
words are: the n-th with 1/n), and writes 20 tokens, never the end, greedily or with 4 beams.
Systems: `jpr.models.generation`, freely and grounded in the passages; transformers' `generate` over
the same memory, freely and with a `prefix_allowed_tokens_fn` that looks up the same trie, as one
would write it down. On a CPU, greedy grounded answers must be the same before they are timed (in
the 16 bits of a GPU near ties fall differently). Times are of writing alone, the passages being
read; to build the tries is counted for the grounded ones. On a GPU in bfloat16, on a CPU in float32
with the threads that torch takes.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import transformers
from peer import peer_config
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput

from jpr.models.config import T5Config
from jpr.models.generation import GenerateOptions, generate_answers
from jpr.models.t5 import T5
from jpr.models.t5_checkpoint import to_hugging_face
from jpr.models.tries import Tries

SHAPES = {
    "tiny": T5Config(300, 16, 8, 32, 1, 2, 1),
    "small": T5Config(32128, 512, 64, 2048, 6, 8, 6),
    "base": T5Config(32128, 768, 64, 3072, 12, 12, 12),
}
SEPARATOR, LONGEST = 5, 16
NEVER = 1e9
Row = dict[str, object]
Answers = list[tuple[int, ...]]


class Task:
    """Questions with passages, read already."""

    def __init__(
        self, shape: T5Config, questions: int, passages: int, tokens: int, device: str
    ) -> None:
        """Draw passages; what is not of a word's beginning is drawn too."""
        chance = np.random.default_rng(0)
        words = np.arange(6, shape.vocab_size)
        share = 1 / np.arange(1, len(words) + 1)
        size = (questions, passages * tokens)
        self.ids = chance.choice(words, size, p=share / share.sum())
        self.inner = np.zeros(shape.vocab_size, dtype=np.bool_)
        self.inner[chance.choice(words, len(words) // 3, replace=False)] = True
        self.lengths = np.full(passages, tokens)
        self.device = torch.device(device)
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        torch.manual_seed(0)
        self.model = T5(shape).to(self.device, dtype).eval()
        ids = torch.from_numpy(self.ids).to(self.device)
        rows = torch.full((questions * passages,), tokens, device=self.device)
        with torch.inference_mode():
            self.memory = self.model.encoder.forward_packed(ids.flatten(), rows)
        self.whole = torch.full((questions,), passages * tokens, device=self.device)

    def tries(self, device: torch.device) -> Tries:
        """Return the runs of each question's passages, given tokens that are on the host."""
        flat = self.ids.reshape(-1)
        ids, inner = (torch.from_numpy(part).to(device) for part in (flat, self.inner[flat]))
        lengths = torch.from_numpy(np.tile(self.lengths, len(self.ids))).to(device)
        texts = torch.full((len(self.ids),), len(self.lengths), device=device)
        return Tries.of(ids, lengths, texts, inner, LONGEST)


class Ours:
    """This package."""

    def __init__(self, task: Task, longest: int, width: int) -> None:
        self._task = task
        self._ways = GenerateOptions(SEPARATOR, longest, width, stop_penalty=NEVER)

    def __call__(self, grounded: bool) -> list[Answers]:
        """Write."""
        task = self._task
        tries = task.tries(task.device) if grounded else None
        found = generate_answers(task.model, task.memory, task.whole, self._ways, tries)
        return [[answer.tokens for answer in answers] for answers in found]


class Theirs:
    """transformers, over the same memory."""

    def __init__(self, task: Task, longest: int, width: int) -> None:
        config = task.model.config
        self._task, self._longest, self._width = task, longest, width
        with torch.device(task.device):
            model: Any = transformers.T5ForConditionalGeneration(peer_config(config))
        own = to_hugging_face(task.model.state_dict(), config)
        model.load_state_dict(own, strict=False)
        self._model: Any = model.to(task.memory.dtype).eval()

    @torch.inference_mode()
    def __call__(self, grounded: bool) -> list[Answers]:
        """Write."""
        task, config = self._task, self._task.model.config
        allowed: dict[str, _Allowed] = {}
        if grounded:
            allowed["prefix_allowed_tokens_fn"] = _Allowed(task.tries(torch.device("cpu")))
        memory: Any = task.memory.view(len(task.whole), -1, config.d_model)
        # bad words: never the end token, as for ours; grounded decoding excludes it
        free = {} if grounded else {"bad_words_ids": [[config.eos_token_id]]}
        found: Tensor = self._model.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=memory),
            attention_mask=torch.ones(memory.shape[:2], device=memory.device),
            max_new_tokens=self._longest,
            num_beams=self._width,
            do_sample=False,
            decoder_start_token_id=config.decoder_start_token_id,
            **allowed,
            **free,
        )
        return [_answers(row[1:]) for row in found.tolist()]


def _answers(tokens: list[int]) -> Answers:
    """Return what stands before separators."""
    found: Answers = []
    rest: tuple[int, ...] = ()
    for token in tokens:
        if token == SEPARATOR:
            found, rest = [*found, rest], ()
        else:
            rest = (*rest, token)
    return found


class _Allowed:
    """What may follow, by walking the trie from the last separator."""

    def __init__(self, tries: Tries) -> None:
        self._roots = tries.roots.tolist()
        own = tries.tokens, tries.first, tries.counts, tries.is_whole
        self._tokens, self._first, self._counts, self._is_whole = (part.numpy() for part in own)

    def __call__(self, question: int, written: Tensor) -> list[int]:
        root = node = self._roots[question]
        given = set()
        for token in written.tolist()[1:]:
            if token == SEPARATOR:
                given.add(node)
                node = root
            else:
                below = self._below(node)
                node = below.start + int(
                    np.searchsorted(self._tokens[below.start : below.stop], token)
                )
        allowed = [
            int(self._tokens[child])
            for child in self._below(node)
            if not (child in given and self._counts[child] == 0)
        ]
        if self._is_whole[node] and node not in given:
            allowed.append(SEPARATOR)
        return allowed

    def _below(self, node: int) -> range:
        """Return the children of a node."""
        first = int(self._first[node])
        return range(first, first + int(self._counts[node]))


def timed(work: Callable[[], object], device: str, repetitions: int) -> Row:
    """Return the median and the ends of several times, after one that does not count."""
    work()
    taken = []
    for _ in range(repetitions):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        taken.append(1e3 * (time.perf_counter() - start))
    ends = [float(np.quantile(taken, share)) for share in (0.1, 0.9)]
    return {"ms": median(taken), "ms 10 % and 90 %": ends}


def rows_of(size: str, device: str, repetitions: int, tiny: bool) -> list[Row]:
    """Time all systems for a size."""
    found: list[Row] = []
    passages, tokens, longest = (2, 12, 6) if tiny else (10, 200, 20)
    for questions, width in ((1, 1), (8, 1), (1, 4)):
        task = Task(SHAPES[size], questions, passages, tokens, device)
        systems: dict[str, Ours | Theirs] = {
            "jpr": Ours(task, longest, width),
            "transformers": Theirs(task, longest, width),
        }
        if device == "cpu" and width == 1:
            assert systems["jpr"](True) == systems["transformers"](True), "they differ"
        for name, system in systems.items():
            for grounded in (False, True):
                row = timed(partial(system, grounded), device, repetitions)
                shape = {"model": size, "questions": questions, "beams": width}
                found.append({**shape, "system": name, "grounded": grounded, **row})
                print(
                    f"{size:6} {questions:2} questions {width} beams  {name:13}"
                    f"{'grounded' if grounded else 'free':9} {row['ms']:9.1f} ms",
                    flush=True,
                )
    return found


def ratios(rows: list[Row]) -> list[Row]:
    """Return what grounding costs us, and how many times transformers' time ours is."""
    found = []
    for first in range(0, len(rows), 4):
        free, ours, _, theirs = (float(str(row["ms"])) for row in rows[first : first + 4])
        shape = {name: rows[first][name] for name in ("model", "questions", "beams")}
        found.append({**shape, "grounding costs": ours / free - 1, "times": theirs / ours})
    return found


def main() -> None:
    """Time, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="a dry run, on the CPU")
    parser.add_argument("--sizes", nargs="*", default=["small", "base"], choices=list(SHAPES))
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--commit", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    began = time.perf_counter()
    device = "cuda" if torch.cuda.is_available() and not options.tiny else "cpu"
    sizes = ["tiny"] if options.tiny else options.sizes
    rows = [
        row for size in sizes for row in rows_of(size, device, options.repetitions, options.tiny)
    ]
    compared = ratios(rows)
    for row in compared:
        print(
            f"{row['model']} {row['questions']} questions {row['beams']} beams: grounding costs "
            f"{100 * float(str(row['grounding costs'])):.0f} %, {row['times']:.1f} times as fast"
        )
    report = {
        "command": " ".join(["python", *sys.argv]),
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.machine(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "commit": options.commit,
        "seconds": time.perf_counter() - began,
        "rows": rows,
        "ratios": compared,
    }
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
