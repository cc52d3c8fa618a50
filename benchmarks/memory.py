"""Peak memory of T5 readers, measured against what `recipes.reader_memory` says.

PYTHONPATH=. python benchmarks/memory.py [--tiny] [--commit NAME] [--out FILE.json]

Training is a step of `jpr.train.loop`: `encoder.forward_packed`, logits of the answer, cross
entropy, backward, gradient clipping, AdamW (fused), under autocast in bfloat16, dropout 0.1.
Inference is `encoder.forward_packed` and `generate_answers` in bfloat16. Weights and tokens are
random, all passages equally long. The peak is `torch.cuda.max_memory_allocated` of the second and
third step: the first makes AdamW's moments. "before" is what was allocated before the model.
"""

import argparse
import gc
import json
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from lines import line
from torch import Tensor, nn

from jpr.models.config import T5Config
from jpr.models.generation import GenerateOptions, generate_answers
from jpr.models.t5 import T5
from recipes.reader_memory import SHAPES, Load, Peak, inference, training

DROPOUT, RATE, STEPS = 0.1, 1e-4, 3
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Setting:
    """What is measured once."""

    size: str
    way: str
    load: Load

    @property
    def predicted(self) -> Peak:
        """The predicted peak."""
        if self.way == "inference":
            return inference(SIZES[self.size], self.load)
        return training(SIZES[self.size], self.load, checkpointing=self.way == "checkpointing")


SIZES = {**SHAPES, "tiny": T5Config(100, 16, 16, 32, 2, 2, 2)}
LARGE = (
    Setting("small", "training", Load(100)),
    Setting("small", "training", Load(25, batch=8)),
    Setting("base", "training", Load(5)),
    Setting("base", "training", Load(50)),
    Setting("base", "training", Load(140)),
    Setting("base", "checkpointing", Load(140)),
    Setting("large", "training", Load(40)),
    Setting("large", "checkpointing", Load(40)),
    Setting("3b", "training", Load(10)),
    Setting("base", "inference", Load(100)),
    Setting("base", "inference", Load(100, batch=8)),
    Setting("large", "inference", Load(100)),
    Setting("3b", "inference", Load(10)),
)
TINY = tuple(
    Setting("tiny", way, Load(3, 8, 4, 2)) for way in ("training", "checkpointing", "inference")
)


def reader(setting: Setting, device: str) -> T5:
    """Make a random reader."""
    with torch.device(device):
        model = T5(SIZES[setting.size], DROPOUT)
    model.encoder.checkpointing = setting.way == "checkpointing"
    return model.bfloat16().eval() if setting.way == "inference" else model.train()


def tokens(setting: Setting, device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sample concatenated passages, their lengths, tokens per question, and answers."""
    load, words = setting.load, SIZES[setting.size].vocab_size
    lengths = torch.full((load.batch * load.passages,), load.tokens)
    memory = torch.full((load.batch,), load.passages * load.tokens)
    ids = torch.randint(2, words, (load.read,), device=device)
    return ids, lengths, memory, torch.randint(2, words, (load.batch, load.answer), device=device)


def trained(setting: Setting, device: str) -> Callable[[], None]:
    """Return a step of training."""
    model = reader(setting, device)
    ids, lengths, memory, answers = tokens(setting, device)
    fused = device == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=fused)

    def loss_of() -> Tensor:
        vectors = model.encoder.forward_packed(ids, lengths)
        logits = model.logits(F.pad(answers[:, :-1], (1, 0)), vectors, memory)
        return F.cross_entropy(logits.flatten(0, 1), answers.flatten())

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16):
            loss = loss_of()
        loss.backward()  # type: ignore[no-untyped-call]  # torch types it loosely
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def read(setting: Setting, device: str) -> Callable[[], None]:
    """Return a function that reads and generates."""
    model = reader(setting, device)
    ids, lengths, memory, _ = tokens(setting, device)
    options = GenerateOptions(separator=0, longest=setting.load.answer)

    @torch.inference_mode()
    def step() -> None:
        generate_answers(model, model.encoder.forward_packed(ids, lengths), memory, options)

    return step


def measured(setting: Setting, device: str) -> Row:
    """Take some steps and return the peak beside the prediction."""
    gc.collect()
    cuda = device == "cuda"
    if cuda:
        torch.cuda.empty_cache()
    about: Row = {"size": setting.size, "way": setting.way, **asdict(setting.load)}
    about |= {"predicted GB": setting.predicted.total / 1e9, "parts": asdict(setting.predicted)}
    before = torch.cuda.memory_allocated() if cuda else 0
    start = time.perf_counter()
    try:
        step = (read if setting.way == "inference" else trained)(setting, device)
        for number in range(STEPS):
            if cuda and number == 1:
                torch.cuda.reset_peak_memory_stats()
            step()
    except torch.OutOfMemoryError:
        return about | {"peak GB": "out of memory"}
    if not cuda:
        return about | {"peak GB": "not measured"}
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated()
    return about | {
        "peak GB": peak / 1e9,
        "reserved GB": torch.cuda.max_memory_reserved() / 1e9,
        "before GB": before / 1e9,
        "predicted / peak": setting.predicted.total / peak,
        "seconds": time.perf_counter() - start,
    }


COLUMNS = {
    "size": (5, ""),
    "way": (13, ""),
    "passages": (8, "d"),
    "tokens": (6, "d"),
    "batch": (5, "d"),
    "peak GB": (13, ".2f"),
    "predicted GB": (12, ".2f"),
    "predicted / peak": (16, ".3f"),
    "reserved GB": (11, ".2f"),
    "before GB": (9, ".2f"),
    "seconds": (7, ".1f"),
}
"""Width of each column of the table, and the format of its numbers."""


def main() -> None:
    """Measure, print, and save the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="on the CPU, to try; no peaks")
    parser.add_argument("--commit", default="", help="to record")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    device, settings = ("cpu", TINY) if options.tiny else ("cuda", LARGE)
    start, found = time.perf_counter(), list[Row]()
    print(line(COLUMNS, {}))
    for setting in settings:
        found.append(measured(setting, device))
        print(line(COLUMNS, found[-1]), flush=True)
        report: Row = {
            "command": " ".join(["python", *sys.argv]),
            "device": platform.machine() if options.tiny else torch.cuda.get_device_name(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "commit": options.commit,
            "seconds": time.perf_counter() - start,
            "rows": found,
        }
        if options.out:  # after every row, so that an interrupted run keeps its numbers
            options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
