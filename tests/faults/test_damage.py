"""Every file that is written, truncated or with a bit flipped: reported, or harmless."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from jpr.encode.encoder_folder import BUNDLED_ENCODER as ENCODERS
from jpr.encode.encoder_folder import export_encoder, load_encoder
from jpr.encode.vectors import open_vectors, vectors_for
from jpr.errors import FormatError, JprError
from jpr.io.checksums import checked_sums
from jpr.models.onnx_weights import joint_from_onnx
from jpr.read.generate import FusionReader
from jpr.rerank.joint import BUNDLED_MODEL as JOINT
from jpr.rerank.joint import JointReranker
from jpr.retrieve.document_index import index_documents
from jpr.retrieve.index import Index, add_to_index, build_index, remove_from_index
from jpr.train.pack import Pack
from jpr.train.state import (
    MovingAverage,
    RunProgress,
    append_to_log,
    begin_log,
    read_log,
    read_state,
    write_state,
)
from tests.damage import without_sums
from tests.encode.texts import passages
from tests.encode.tiny import write_encoder
from tests.read.test_generate import write_tiny
from tests.rerank.tiny import NAMES, QUESTION, hits, ranking
from tests.retrieve.toy import WordEncoder
from tests.train.tiny import write_invented

ENCODER = WordEncoder()
FEW = 12
"""Places at which a file is damaged."""


def damages(content: bytes) -> Iterator[bytes]:
    """Yield a file cut short, and with a bit turned, at places all over it and at both ends."""
    yield from (b"", content[: len(content) // 2], content[:-1])
    for place in sorted({*np.linspace(0, len(content) - 1, FEW, dtype=int).tolist(), 5}):
        if place < len(content):
            turned = bytearray(content)
            turned[place] ^= 1 << place % 8
            yield bytes(turned)


def count_reported(folder: Path, look: Callable[[], object]) -> int:
    """Damage every file in turn: what is found is then an error of ours, or what it was before.

    Return how often it was an error.
    """
    whole, reported = look(), 0
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name.endswith("lock"):
            continue
        content = path.read_bytes()
        for damaged in damages(content):
            path.unlink()  # it may be linked to another
            path.write_bytes(damaged)
            try:
                assert look() == whole, path
            except JprError as error:
                reported += 1
                assert "\n" not in str(error), path  # noqa: PT017  some damage is no matter
        path.unlink()
        path.write_bytes(content)
    assert look() == whole
    return reported


def answers(folder: Path) -> object:
    index = Index(folder)
    near = index.search_dense(ENCODER.encode_questions(["river castle", "old tower"]), 5)
    everything = [(one.id, one.title, one.text) for one in index.store]
    found = [index.search_bm25(word, 5) for word in ("river", "castle tower")]
    return near, everything, found, index.manifest


def built(folder: Path) -> Path:
    build_index(passages(60), folder, source="a", encoder=ENCODER)
    return folder


def test_every_file_of_an_index(tmp_path: Path) -> None:
    reported = count_reported(built(tmp_path), lambda: answers(tmp_path))
    assert reported > 150


def test_files_that_are_too_large_to_be_looked_at_are_compared_before_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = built(tmp_path)
    frames = index / "v1" / "store" / "passages.zst"
    content = bytearray(frames.read_bytes())
    content[len(content) // 2] ^= 1
    frames.write_bytes(content)
    with pytest.raises(FormatError, match=r"passages\.zst: is damaged"):
        Index(index)
    monkeypatch.setattr("jpr.retrieve.index_manifest.VERIFY_UP_TO", 0)
    opened = Index(index)  # every frame has a checksum of its own
    with pytest.raises(FormatError, match=r"passage \d+ is damaged"):
        list(opened.store)
    with pytest.raises(FormatError, match=r"passages\.zst: is damaged"):
        add_to_index(passages(1), index, source="b", replacing=True, encoder=ENCODER)
    with pytest.raises(FormatError, match=r"passages\.zst: is damaged"):
        remove_from_index(["3"], index)
    assert [path.name for path in index.glob("v*")] == ["v1"]


@pytest.mark.parametrize("file", ["*.fast", "*.term", "*.idx"])
def test_words_that_are_not_looked_at_end_in_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """As those of a large index are; tantivy panics at some."""
    monkeypatch.setattr("jpr.retrieve.index_manifest.VERIFY_UP_TO", 0)
    (path,) = (built(tmp_path) / "v1" / "bm25").glob(file)
    content = path.read_bytes()
    for place in np.linspace(0, len(content) - 1, 60, dtype=int).tolist():
        turned = bytearray(content)
        turned[place] ^= 1 << place % 8
        path.unlink()  # an index that is still open maps it
        path.write_bytes(turned)
        with suppress(FormatError):  # or the results differ: `jpr doctor` reports it
            Index(tmp_path).search_bm25("river castle", 5)


def test_a_changed_index_has_the_hashes_of_all_its_files(tmp_path: Path) -> None:
    built(tmp_path)
    add_to_index(passages(80)[60:], tmp_path, source="b", encoder=ENCODER)
    remove_from_index(["1", "70"], tmp_path)
    assert count_reported(tmp_path, lambda: answers(tmp_path)) > 150


def test_every_file_of_vectors(tmp_path: Path, given: Path) -> None:
    vectors_for(passages(25), load_encoder(given / "encoder"), tmp_path, chunk=10)

    def stored() -> list[list[float]]:
        return np.concatenate(list(open_vectors(tmp_path).blocks())).tolist()  # type: ignore[no-any-return]  # numpy's

    assert count_reported(tmp_path, stored) > 40


def test_every_byte_of_a_chunk(tmp_path: Path, given: Path) -> None:
    vectors_for(passages(1), load_encoder(given / "encoder"), tmp_path)
    chunk, whole = tmp_path / "000000.npz", next(open_vectors(tmp_path).blocks()).tolist()
    content = chunk.read_bytes()
    for place in range(len(content)):
        turned = bytearray(content)
        turned[place] ^= 1 << place % 8
        chunk.write_bytes(turned)
        try:
            assert next(open_vectors(tmp_path).blocks()).tolist() == whole, place
        except FormatError as error:
            assert "000000.npz" in str(error)  # noqa: PT017  some bytes are dates


def test_every_file_of_a_pack(tmp_path: Path) -> None:
    pack = write_invented(tmp_path / "pack")

    def opened() -> object:
        found = Pack.open(pack)
        return found.counts(), found.question_ids, found.scores.tolist(), found.about

    assert count_reported(pack, opened) > 200


def state_of(folder: Path) -> object:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    average = MovingAverage(list(model.parameters()), 0.5)
    progress = read_state(folder, model, optimizer, average)
    return progress, model.weight.tolist(), [w.tolist() for w in average.values]


def chosen(folder: Path) -> object:
    ranked = JointReranker.load(folder, device="cpu", threads=1).rank(QUESTION, hits(NAMES), 3)
    return [(hit.passage.id, hit.score) for hit in ranked.hits]


@pytest.mark.parametrize("kind", ["joint", "torch-joint"])
def test_every_file_of_a_joint_model(tmp_path: Path, given: Path, kind: str) -> None:
    shutil.copytree(given / kind, tmp_path / "model")
    reported = count_reported(tmp_path / "model", lambda: chosen(tmp_path / "model"))
    assert reported > 60


def encoded(folder: Path) -> object:
    return load_encoder(folder, "cpu", threads=1).encode_passages(passages(3)).tolist()


def test_every_file_of_an_encoder(tmp_path: Path, given: Path) -> None:
    shutil.copytree(given / "encoder", tmp_path / "encoder")
    assert count_reported(tmp_path / "encoder", lambda: encoded(tmp_path / "encoder")) > 45


def test_every_file_of_an_encoder_with_two_towers(tmp_path: Path) -> None:
    for seed, tower in enumerate(("question", "passage")):
        write_encoder(tmp_path / "torch" / tower, seed)
    export_encoder(tmp_path / "torch", tmp_path / "onnx")
    assert count_reported(tmp_path / "onnx", lambda: encoded(tmp_path / "onnx")) > 60


def test_every_file_of_a_reader(tmp_path: Path) -> None:
    write_tiny(tmp_path)

    def read() -> object:
        return FusionReader.load(tmp_path, device="cpu").read(ranking())

    assert count_reported(tmp_path, read) > 60


def test_a_damaged_file_is_named_before_it_is_opened(tmp_path: Path, given: Path) -> None:
    shutil.copytree(given / "joint", tmp_path / "joint")
    (tmp_path / "joint" / "step.onnx").write_bytes(b"x")
    with pytest.raises(FormatError, match=r"step\.onnx: is damaged: .*; copy or make it again"):
        chosen(tmp_path / "joint")
    with pytest.raises(FormatError, match=r"step\.onnx: is damaged"):
        joint_from_onnx(tmp_path / "joint")


def test_models_of_before_there_were_checksums_are_read(tmp_path: Path, given: Path) -> None:
    for kind, file, look in (
        ("joint", "joint.json", chosen),
        ("torch-joint", "joint.json", chosen),
        ("encoder", "encoder.json", encoded),
    ):
        whole = look(given / kind)
        shutil.copytree(given / kind, tmp_path / kind)
        without_sums(tmp_path / kind / file)
        assert look(tmp_path / kind) == whole


@pytest.mark.parametrize("sums", [7, ["x"], {"../outside": "0"}, {"/dev/zero": "0"}, {"pipe": "0"}])
def test_hashes_are_only_of_files_in_the_folder(tmp_path: Path, sums: object) -> None:
    about = tmp_path / "joint.json"
    about.write_text(json.dumps({"sums": sums}))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match=r"joint\.json: is damaged"):
        checked_sums(about)


@pytest.mark.parametrize("about", [JOINT / "joint.json", ENCODERS / "encoder.json"])
def test_the_bundled_models_are_unchanged(about: Path) -> None:
    found = {path.name for path in checked_sums(about)}
    assert found == {path.name for path in about.parent.iterdir()} - {about.name}
    assert "sha256" in json.loads(about.read_text())


def test_the_state_of_a_training(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    average = MovingAverage(list(model.parameters()), 0.5)
    write_state(tmp_path, model, optimizer, average, RunProgress(step=7))
    assert count_reported(tmp_path, lambda: state_of(tmp_path)) > 10


def test_a_damaged_line_of_a_log_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b'{"step": 1}\n{"stop": 2}\n\xff\n[3]\n{"step": "x"}\n{"step": 4}\n{"ste')
    assert [line["step"] for line in read_log(log)] == [1, 4]
    begin_log(log, 2)
    append_to_log(log, {"step": 3})
    assert [line["step"] for line in read_log(log)] == [1, 3]


def test_a_damaged_cache_of_documents_is_made_again(tmp_path: Path, given: Path) -> None:
    docs, home = tmp_path / "docs", tmp_path / "home"
    docs.mkdir()
    for name in ("river", "castle", "tower"):
        (docs / f"{name}.txt").write_text(f"The old {name} is where the market is.")
    tokenizer = given / "encoder" / "tokenizer.json"

    def asked() -> object:
        index = Index(index_documents(docs, home, ENCODER, tokenizer))
        return sorted((one.id, one.text) for one in index.store)

    whole = asked()
    (own,) = home.iterdir()
    files = ["files.json", "index/CURRENT", *(f"index/v*/{name}" for name in ("*.json", "*/*"))]
    for pattern in files:
        for _ in range(3):
            path = sorted(path for path in own.glob(pattern) if path.stat().st_size)[0]
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
            assert asked() == whole


def test_records_of_before_there_were_checksums_are_read(tmp_path: Path) -> None:
    manifest = built(tmp_path) / "v1" / "manifest.json"
    whole = answers(tmp_path)
    record = json.loads(manifest.read_text())
    del record["sums"], record["sha256"]
    manifest.write_text(json.dumps(record))
    assert re.sub("sums=.*?}", "", repr(answers(tmp_path))) == re.sub("sums=.*?}", "", repr(whole))
    shutil.rmtree(tmp_path / "v1" / "bm25")
    with pytest.raises(FormatError, match="a file is missing"):
        Index(tmp_path)
