"""`jpr export`, from the command line to a model that runs."""

import json
from pathlib import Path

import numpy as np
import pytest

from jpr.encode.encoder_folder import load_encoder
from jpr.rerank.joint import BUNDLED_MODEL, JointReranker
from jpr.rerank.onnx_scorer import OnnxScorer
from tests.cli.running import fails, jpr, refused, run_file
from tests.encode.texts import passages
from tests.encode.tiny import write_encoder
from tests.rerank.tiny import NAMES, QUESTION, hits, write_pointer


def sample(folder: Path) -> Path:
    run = folder / "run.jsonl"
    ctxs = [
        {"id": h.passage.id, "title": h.passage.title, "text": h.passage.text, "score": h.score}
        for h in hits(NAMES)
    ]
    lines = [{"id": str(i), "question": "which colour ?", "ctxs": ctxs[i:]} for i in range(3)]
    run.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def test_a_joint_model_in_both_precisions(tmp_path: Path) -> None:
    model, run = write_pointer(tmp_path / "model"), sample(tmp_path)
    jpr("export", model, "--out", tmp_path / "exact", "--set", "precision=fp32")
    jpr("export", model, "--out", tmp_path / "int8", "--sample", run)
    names = ["encoder.onnx", "joint.json", "step.onnx", "tokenizer.json"]
    assert sorted(file.name for file in (tmp_path / "int8").iterdir()) == names
    assert OnnxScorer(tmp_path / "int8", {}, 1).key != OnnxScorer(tmp_path / "exact", {}, 1).key
    jpr("rerank", run, "--model", tmp_path / "exact", "-o", tmp_path / "out.jsonl", "-k", 3)
    first = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    expected = JointReranker.load(model, device="cpu").rank(QUESTION, hits(NAMES), 3)
    assert [ctx["id"] for ctx in first["ctxs"]] == [hit.passage.id for hit in expected.hits]


def test_a_prior_brings_back_the_order_of_the_first_stage(tmp_path: Path) -> None:
    model = write_pointer(tmp_path / "model")
    chosen = {}
    for prior in (0, 1000):
        out = tmp_path / str(prior)
        jpr("export", model, "--out", out, "--set", "precision=fp32", "--set", f"prior={prior}")
        reranker = JointReranker.load(out, decoder="independent")
        ranking = reranker.rank(QUESTION, hits(NAMES), len(NAMES))
        chosen[reranker.key] = [hit.passage.id for hit in ranking.hits]
    own, first = chosen.values()
    assert first == [hit.passage.id for hit in hits(NAMES)] != own


def test_an_encoder_in_both_precisions(tmp_path: Path) -> None:
    source, run = write_encoder(tmp_path / "model"), sample(tmp_path)
    jpr("export", source, "--out", tmp_path / "exact", "--set", "precision=fp32")
    jpr("export", source, "--out", tmp_path / "int8", "--sample", run)
    expected = load_encoder(source, "cpu").encode_passages(passages(9))
    exact = load_encoder(tmp_path / "exact", "cpu", threads=1)
    np.testing.assert_allclose(exact.encode_passages(passages(9)), expected, atol=1e-5)
    sizes = [(tmp_path / kind / "model.onnx").stat().st_size for kind in ("int8", "exact")]
    assert sizes[0] < sizes[1]


def test_mistakes_are_one_sentence_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, run, out = write_pointer(tmp_path / "model"), sample(tmp_path), tmp_path / "out"

    def said(*arguments: object) -> str:
        return fails(capsys, monkeypatch, "export", *arguments, "--out", out)

    assert "--sample RUN" in said(model)
    assert "choose one of int8, fp32" in said(model, "--set", "precision=int4")
    assert "--sample is only for int8" in said(model, "--set", "precision=fp32", "--sample", run)
    assert "is not a folder" in said(tmp_path / "nowhere", "--sample", run)
    (tmp_path / "empty").mkdir()
    assert "empty: not a model" in said(tmp_path / "empty", "--sample", run)
    run.write_text("a Q0 7 1 2.5 x\n")
    assert f"{run}: question 'a' or its passages have no texts" in said(model, "--sample", run)
    run.write_text('{"id": "a", "question": "first?", "ctxs": []}\n')
    assert "holds no ranking with passages" in said(model, "--sample", run)
    assert f"{BUNDLED_MODEL}: is already in ONNX" in said(BUNDLED_MODEL, "--sample", run)
    assert not out.exists()
    assert "name a new folder" in fails(
        capsys, monkeypatch, "export", model, "--set", "precision=fp32", "--out", model
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "model", "run.jsonl"]


def test_the_bundled_model_is_not_calibrated_in_place(tmp_path: Path) -> None:
    run = run_file(tmp_path, "run", ["red"])  # without answers: it could not be used in any case
    assert "bundled" in refused("export", BUNDLED_MODEL, "--calibrate", run)
