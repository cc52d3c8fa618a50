"""Texts encoded singly by several threads: in order, few at a time, and also after a fork."""

import subprocess
import sys
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest

import jpr
from jpr.encode.onnx_session import OnnxModel, one_text

MODEL = Path(jpr.__file__).parent / "assets" / "encoder" / "model.onnx"
FORKS = f"""
import os, signal
from pathlib import Path
from jpr.encode.onnx_session import OnnxModel, one_text
model = OnnxModel(Path({str(MODEL)!r}), 2)
list(model.read(["vectors"], [one_text([101, 102])] * 3))
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(len(list(model.read(["vectors"], [one_text([101, 102])] * 3))))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("threads", [1, 3])
def test_texts_come_in_order_however_many_there_are(threads: int) -> None:
    model = OnnxModel(MODEL, threads)
    texts = (one_text([101, *range(1000, 1000 + n % 7), 102]) for n in count())
    found = [vectors for (vectors,) in islice(model.read(["vectors"], texts), 20)]
    assert len(found) == 20
    for n, vectors in enumerate(found):
        np.testing.assert_array_equal(vectors, found[n % 7])
    assert not np.array_equal(found[0], found[1])


def test_a_process_that_was_forked_reads_too() -> None:
    child = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=60, check=True
    )
    assert child.stdout.strip() == "3"
