"""Texts encoded singly by several threads: in order, few at a time, and also after a fork."""

import subprocess
import sys
from itertools import count, islice
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import jpr
from jpr.encode.encoder_folder import load_encoder
from jpr.encode.onnx_session import OnnxModel, one_text, open_session
from jpr.errors import FormatError
from jpr.models.onnx_weights import tower_from_onnx
from jpr.models.tower import VectorHead

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


def model_with_a_weight_elsewhere(file: str, *, in_a_node: bool) -> bytes:
    """A model that adds four numbers, which are in another file, to its input."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=file)
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    if in_a_node:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=weight))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [] if in_a_node else [weight])
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("in_a_node", [False, True])
@pytest.mark.parametrize("place", [".", "..", "inner"])
def test_a_model_reads_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, *, in_a_node: bool
) -> None:
    """Given as bytes, onnxruntime 1.31 reads those in and below the current folder."""
    here = tmp_path / "here"
    (here / "inner").mkdir(parents=True)
    secret = here / place / "secret.bin"
    secret.write_bytes(np.arange(4, dtype=np.float32).tobytes())
    monkeypatch.chdir(here)
    model = model_with_a_weight_elsewhere(f"{place}/secret.bin", in_a_node=in_a_node)
    file = tmp_path / "model.onnx"
    file.write_bytes(model)
    with pytest.raises(FormatError, match=r"model\.onnx: .*other files"):
        open_session(file)
    with pytest.raises(FormatError, match=r"model\.onnx: .*other files"):
        tower_from_onnx(file, VectorHead())


def test_the_key_of_other_files_is_found_however_it_is_encoded(tmp_path: Path) -> None:
    """A length may be longer than it has to be, where protobuf reads it."""
    model = model_with_a_weight_elsewhere("secret.bin", in_a_node=False)
    plain, longer = b"\x0a\x08location", b"\x0a\x88\x00location"
    entry = onnx.StringStringEntryProto.FromString(longer)
    assert entry.key == "location"
    assert plain in model
    file = tmp_path / "model.onnx"
    file.write_bytes(model.replace(plain, longer))
    with pytest.raises(FormatError, match="other files"):
        open_session(file)


def test_tokens_that_a_model_does_not_have_are_an_error_of_its_file() -> None:
    tower = load_encoder()
    with pytest.raises(FormatError, match=r"model\.onnx"):
        list(OnnxModel(MODEL, 1).read(["vectors"], [one_text([101, 99_999, 102])]))
    assert tower.encode_questions(["castle"]).shape == (1, 384)


@pytest.mark.parametrize("name", [b"\xaaather", b"Nonsen"])
def test_an_unknown_operator_is_named_on_no_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: bytes
) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(MODEL.read_bytes().replace(b"Gather", name))
    with pytest.raises(FormatError, match=r"model\.onnx"):
        open_session(file)
    assert capfd.readouterr() == ("", "")
