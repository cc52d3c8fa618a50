"""The service that benchmarks/serve.py measures, in a process of its own.

python benchmarks/served.py MODEL BATCH WAITING
"""

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import copyfile

from jpr.encode.tokenizer import read_tokenizer
from jpr.pipeline import Pipeline
from jpr.read.spans import SpanReader
from jpr.rerank.joint import BUNDLED_MODEL, JointReranker
from jpr.rerank.prompt import PromptSettings
from jpr.retrieve.custom import FunctionRetriever
from jpr.serve.access import AccessPolicy
from jpr.serve.app import Address, serve
from jpr.serve.limits import ServiceLimits
from jpr.serve.service import Service
from jpr.types import Hit, Passage

WORDS = 100
"""Of a passage."""


def text(draw: random.Random, words: int) -> str:
    """Return a text of invented words."""
    syllables = ("ka", "lo", "mi", "ren", "tos", "vu", "bel", "dan")
    invented = ("".join(draw.choices(syllables, k=draw.randint(1, 3))) for _ in range(words))
    return " ".join(invented)


@dataclass(frozen=True, slots=True)
class Running:
    """A service in a process of its own."""

    port: int
    pid: int

    def resident(self) -> float:
        """Return the memory of the process, in MB."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1000


@contextmanager
def serving(model: Path, *, batch: int = 8, waiting: int = 64) -> Iterator[Running]:
    """Start a service, and check that it ends with 0."""
    settings = [str(model), str(batch), str(waiting)]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("wb") as stream:
            process = subprocess.Popen([sys.executable, __file__, *settings], stderr=stream)
        try:
            while b"\n" not in log.read_bytes():
                if process.poll() is not None:
                    raise SystemExit(log.read_text(encoding="utf-8"))
                time.sleep(0.05)
            url = json.loads(log.read_text(encoding="utf-8").splitlines()[0])["url"]
            yield Running(int(url.rstrip("/").rpartition(":")[2]), process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            ended = process.wait(60)
        assert ended == 0, "the service did not end with 0"


def main(model: Path, batch: int, waiting: int) -> None:
    """Run the service; its first stage returns the same passages for all questions."""
    draw = random.Random(0)
    hits = [Hit(Passage(str(at), "", text(draw, WORDS)), -float(at)) for at in range(100)]
    joint = JointReranker.load(model, device="cpu")
    retriever = FunctionRetriever(lambda _, k: hits[:k])
    limits = ServiceLimits(waiting=waiting, batch=batch, seconds=3600)
    pipeline = Pipeline(retriever, joint, SpanReader(joint))
    serve(Service(pipeline, limits, read_tokenizer(model)), Address(port=0), AccessPolicy())


def tiny_model(folder: Path) -> Path:
    """Write a tiny random model."""
    from jpr.models.bert import Bert
    from jpr.models.config import BertConfig, T5Config
    from jpr.models.heads import PointerHead  # torch: not in the process that is measured
    from jpr.models.joint import JointModel
    from jpr.models.joint_checkpoint import write_joint
    from jpr.models.t5 import T5Decoder
    from jpr.rerank.save import export_joint

    bert, decoder = (
        Bert(BertConfig(30522, 16, 1, 2, 32, 300)),
        T5Decoder(T5Config(1, 16, 8, 32, 1, 2, 1)),
    )
    model = JointModel(bert, decoder, PointerHead(16), "passages", answers=True)
    write_joint(folder / "torch", model, asdict(PromptSettings()))
    copyfile(BUNDLED_MODEL / "tokenizer.json", folder / "torch" / "tokenizer.json")
    (folder / "onnx").mkdir()
    export_joint(folder / "torch", folder / "onnx")
    return folder / "onnx"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
