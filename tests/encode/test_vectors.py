import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from jpr.encode import vectors
from jpr.encode.encoder import TextEncoder, Vectors
from jpr.encode.encoder_folder import export_encoder, load_encoder
from jpr.encode.vectors import open_vectors, vectors_for
from jpr.errors import ConfigError, DataError, FormatError
from jpr.types import Passage
from tests.encode.texts import passages
from tests.encode.tiny import write_encoder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = write_encoder(tmp_path_factory.mktemp("torch"))
    folder = tmp_path_factory.mktemp("onnx")
    export_encoder(source, folder)
    return folder


@pytest.fixture(scope="session")
def encoder(model: Path) -> TextEncoder:
    return load_encoder(model)


def stored(folder: Path) -> Vectors:
    return np.concatenate(list(open_vectors(folder).blocks()))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_vectors_come_back_in_the_order_of_the_corpus(tmp_path: Path, encoder: TextEncoder) -> None:
    done: list[int] = []
    made = vectors_for(passages(25), encoder, tmp_path, chunk=10, progress=done.append)
    assert len(made) == 25
    opened = open_vectors(tmp_path)
    assert (len(opened), opened.count, opened.dimension, opened.key) == (25, 25, 32, encoder.key)
    assert [len(block) for block in opened.blocks()] == done == [10, 10, 5]
    exact = encoder.encode_passages(passages(25))
    np.testing.assert_allclose(stored(tmp_path), exact, atol=2**-11)  # float16: 11 bits below 1
    assert stored(tmp_path).dtype == np.float32


FLOATS = st.floats(-100, 100, width=32, allow_subnormal=False)


@given(arrays.arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 5)), elements=FLOATS))
def test_a_byte_is_off_by_half_a_step_at_most(exact: Vectors) -> None:
    packed = vectors._quantize(exact, "sq8")
    assert packed["vectors"].dtype == np.uint8
    reach = exact.max(axis=0) - exact.min(axis=0)
    found = packed["vectors"].astype(np.float32) * packed["step"] + packed["low"]
    assert (np.abs(found - exact) <= reach / 255 * 0.5 + 1e-4).all()


def test_a_byte_a_number(tmp_path: Path, encoder: TextEncoder) -> None:
    vectors_for(passages(60), encoder, tmp_path / "sq8", precision="sq8", chunk=60)
    vectors_for(passages(60), encoder, tmp_path / "half", chunk=60)
    exact, found = encoder.encode_passages(passages(60)), stored(tmp_path / "sq8")
    assert (found * exact).sum(axis=1).min() > 0.999
    sizes = [(tmp_path / name / "000000.npz").stat().st_size for name in ("half", "sq8")]
    assert sizes[0] - sizes[1] > 60 * 32 - 1000


ENCODE = """
import sys
from pathlib import Path
from jpr.encode.encoder_folder import load_encoder
from jpr.encode.encoder_folder import export_encoder
from jpr.encode.vectors import vectors_for
from tests.encode.texts import passages
vectors_for(passages(300), load_encoder(sys.argv[1]), Path(sys.argv[2]), chunk=5)
"""


def test_a_killed_encoding_resumes(tmp_path: Path, model: Path, encoder: TextEncoder) -> None:
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", ENCODE, str(model), str(folder)]
    with subprocess.Popen(command) as process:
        while len(list(folder.glob("0*.npz"))) < 7:
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    left = {path.name: path.stat().st_mtime_ns for path in folder.glob("0*.npz")}
    assert 7 <= len(left) < 60
    with pytest.raises(FormatError, match="not complete"):
        open_vectors(folder)
    vectors_for(passages(300), encoder, folder, chunk=5)
    assert (
        left.items() <= {path.name: path.stat().st_mtime_ns for path in folder.glob("0*")}.items()
    )
    vectors_for(passages(300), encoder, tmp_path / "whole", chunk=5)
    torn = {path.name for path in folder.glob(".*")}  # what the kill left of a file in the making
    kept = {name: text for name, text in contents(folder).items() if name not in torn}
    assert kept == contents(tmp_path / "whole")


def test_another_corpus_is_noticed(tmp_path: Path, encoder: TextEncoder) -> None:
    vectors_for(passages(25), encoder, tmp_path, chunk=10)
    changed = [*passages(25)[:-1], Passage("24", "", "another castle")]
    with pytest.raises(DataError, match=r"000002\.npz: .*other passages"):
        vectors_for(changed, encoder, tmp_path, chunk=10)
    with pytest.raises(DataError, match="holds vectors of more passages"):
        vectors_for(passages(20), encoder, tmp_path, chunk=10)


def test_a_corpus_may_grow_by_whole_chunks(tmp_path: Path, encoder: TextEncoder) -> None:
    many = passages(40)
    vectors_for(many[:20], encoder, tmp_path, chunk=10)
    vectors_for(many, encoder, tmp_path, chunk=10)
    assert open_vectors(tmp_path).count == 40


@pytest.mark.parametrize("what", ["key", "kind", "chunk"])
def test_other_vectors_are_not_mixed_in(tmp_path: Path, encoder: TextEncoder, what: str) -> None:
    vectors_for(passages(5), encoder, tmp_path / "v", chunk=10)
    other = load_encoder(write_encoder(tmp_path / "e", seed=9)) if what == "key" else encoder
    with pytest.raises(ConfigError, match=f"holds vectors with {what} "):
        vectors_for(
            passages(5),
            other,
            tmp_path / "v",
            precision="sq8" if what == "kind" else "float16",
            chunk=20 if what == "chunk" else 10,
        )


def test_what_cannot_be_encoded_is_an_error(tmp_path: Path, encoder: TextEncoder) -> None:
    with pytest.raises(DataError, match="no passages"):
        vectors_for([], encoder, tmp_path / "v")
    with pytest.raises(ConfigError, match=r"int4.*float16, sq8"):
        vectors_for(passages(1), encoder, tmp_path / "v", precision="int4")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "important.txt").write_text("mine")
    with pytest.raises(ConfigError, match="notes: "):
        vectors_for(passages(1), encoder, tmp_path / "notes")
    with pytest.raises(ConfigError, match="cannot be written"):
        vectors_for(passages(1), encoder, tmp_path / "notes" / "important.txt" / "v")


def test_a_damaged_folder_is_refused(tmp_path: Path, encoder: TextEncoder) -> None:
    with pytest.raises(FormatError, match="jpr index CORPUS --vectors"):
        open_vectors(tmp_path)
    vectors_for(passages(25), encoder, tmp_path, chunk=10)
    chunk = tmp_path / "000001.npz"
    whole = chunk.read_bytes()
    for wrong in (whole[:-30], b"", (tmp_path / "000002.npz").read_bytes()):
        chunk.write_bytes(wrong)
        with pytest.raises(FormatError, match=r"000001\.npz: "):
            stored(tmp_path)
    chunk.unlink()
    with pytest.raises(FormatError, match=r"000001\.npz: "):
        stored(tmp_path)
    (tmp_path / "head.json").write_text(json.dumps({"format": 2}))
    with pytest.raises(FormatError, match="format 2"):
        open_vectors(tmp_path)
    (tmp_path / "head.json").write_text(json.dumps({"format": 1, "key": "k"}))
    with pytest.raises(FormatError, match="damaged"):
        open_vectors(tmp_path)
