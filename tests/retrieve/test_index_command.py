"""`jpr index`, with a real encoder of random weights."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jpr.cli import app
from jpr.encode.encoder_folder import BUNDLED_ENCODER, load_encoder
from jpr.encode.vectors import vectors_for
from jpr.formats.corpus import write_passages
from jpr.retrieve.document_index import index_documents
from jpr.retrieve.index import Index
from tests.cli.running import fails, jpr
from tests.encode.tiny import write_encoder
from tests.formats.corpus.document_samples import pdf, with_password
from tests.retrieve.toy import passages

ASKED = ["castle bridge", "where is the old tower?"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


def corpus(folder: Path, count: int, seed: int = 0) -> Path:
    path = folder / f"corpus-{seed}.jsonl"
    with path.open("w", encoding="utf-8") as stream:
        write_passages(passages(count, seed), stream, "beir")
    return path


def nearest(index: Path, encoder: Path) -> list[list[str]]:
    opened = Index(index)
    found = opened.search_dense(load_encoder(encoder).encode_questions(ASKED), 10)
    return [[opened.store[row].id for row, _ in hits] for hits in found]


def test_a_corpus_is_indexed_added_to_and_removed_from(tmp_path: Path, encoder: Path) -> None:
    index = tmp_path / "index"
    jpr("index", corpus(tmp_path, 40), "--out", index, "--encoder", encoder)
    before = nearest(index, encoder)
    made = Index(index).manifest
    assert (made.passages, made.source) == (40, "corpus-0.jsonl")
    assert made.vectors is not None
    assert made.vectors.encoder == str(encoder.resolve())
    assert made.vectors.key == load_encoder(encoder).key
    jpr("index", "--add", corpus(tmp_path, 10, seed=1), "--out", index)  # knows its encoder
    assert Index(index).manifest.passages == 50
    (tmp_path / "ids.txt").write_text("".join(f"{p.id}\n" for p in passages(9, 1)))
    jpr("index", "--remove", tmp_path / "ids.txt", "--out", index)
    jpr("index", "--remove", "id 1 9,id 0 39", "--out", index)
    assert Index(index).manifest.passages == 39
    kept = [[id for id in ids if id != "id 0 39"] for ids in before]
    assert [ids[:9] for ids in nearest(index, encoder)] == [ids[:9] for ids in kept]


def test_vectors_made_before_are_as_good(
    tmp_path: Path,
    encoder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts, vectors = corpus(tmp_path, 40), tmp_path / "vectors"
    jpr("index", texts, "--out", tmp_path / "a", "--encoder", encoder)
    vectors_for(passages(40), load_encoder(encoder), vectors)
    jpr("index", texts, "--out", tmp_path / "b", "--vectors", vectors, "--encoder", encoder)
    assert nearest(tmp_path / "a", encoder) == nearest(tmp_path / "b", encoder)
    assert Index(tmp_path / "a").key == Index(tmp_path / "b").key
    other = write_encoder(tmp_path / "other", seed=1)
    given = ("--out", tmp_path / "b", "--vectors", vectors)
    message = fails(capsys, monkeypatch, "index", texts, *given, "--encoder", other)
    assert "name the right one" in message
    more = corpus(tmp_path, 41, seed=2)
    message = fails(capsys, monkeypatch, "index", more, *given, "--encoder", encoder)
    assert "holds vectors of 40 passages only" in message
    message = fails(capsys, monkeypatch, "index", texts, *given)
    assert "bundled encoder is" in message


def noted(*arguments: object) -> str:
    """Run a command that must succeed, and return its messages on stderr."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stderr


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    (folder / "old").mkdir(parents=True)
    (folder / "tower.md").write_text("# Tower\nThe tower is old.\n\n## Bridge\nOak.\n")
    (folder / "long.txt").write_text("the castle has a bridge . " * 40)
    (folder / "old" / "walls.csv").write_text("wall,year\nnorth,1402\nsouth,1420\n")
    (folder / "page.html").write_text("<title>Moat</title><p>The moat is dry.")
    (folder / "plan.pdf").write_bytes(pdf("The gate.", "The well."))
    (folder / "lock.pdf").write_bytes(with_password(pdf("Secret.")))
    return folder


def test_a_folder_is_read_and_cut_as_asking_it_does(
    tmp_path: Path,
    documents: Path,
    encoder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = tmp_path / "index"
    message = noted("index", documents, "--out", index, "--encoder", encoder)
    assert message.count("left out") == 1
    assert "lock.pdf: is encrypted; save it without a password; left out" in message
    with pytest.warns(UserWarning, match="left out"):
        own = index_documents(
            documents, tmp_path / "home", load_encoder(encoder), BUNDLED_ENCODER / "tokenizer.json"
        )
    found = list(Index(index).store)
    assert found == list(Index(own).store)
    assert {passage.meta["file"] for passage in found} == {
        "long.txt", "tower.md", "page.html", "plan.pdf", "old/walls.csv"
    }  # fmt: skip
    assert sum(passage.id.startswith("long.txt#") for passage in found) == 2
    vectors = tmp_path / "vectors"
    jpr("index", documents, "--vectors", vectors, "--encoder", encoder)
    given = ("--vectors", vectors, "--encoder", encoder)
    jpr("index", documents, "--out", tmp_path / "again", *given)
    assert Index(tmp_path / "again").key == Index(index).key
    jpr("index", documents, "--out", index, "--encoder", "none", "--split", "words:50")
    cut = [one for one in Index(index).store if one.id.startswith("long.txt#")]
    assert [len(one.text.split()) for one in cut] == [50, 50, 50, 50, 40]
    assert "write words:100" in fails(
        capsys, monkeypatch, "index", documents, "--out", index, "--split", "lines:2"
    )


def test_a_missing_extra_is_named_and_the_rest_is_indexed(
    tmp_path: Path,
    documents: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = "jpr.formats.corpus.documents.find_spec"
    monkeypatch.setattr(find, lambda name: None if name == "pypdf" else name)
    message = noted("index", documents, "--out", tmp_path / "index", "--encoder", "none")
    assert "reading .pdf files" in message
    assert "pip install 'jpr[documents]'" in message
    assert Index(tmp_path / "index").manifest.passages > 4
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "picture.jpg").write_bytes(b"x")
    given = ("--out", tmp_path / "index", "--encoder", "none")
    message = fails(capsys, monkeypatch, "index", tmp_path / "only", *given)
    assert ".txt .md .html" in message


def test_the_manifest_can_be_read_by_anyone(tmp_path: Path, encoder: Path) -> None:
    jpr("index", corpus(tmp_path, 5), "--out", tmp_path / "index", "--encoder", encoder)
    manifest = json.loads((tmp_path / "index" / "v1" / "manifest.json").read_text())
    assert manifest["fields"] == ["half", "source", "title"]
    assert manifest["vectors"]["kind"] == "sq8"
    assert manifest["vectors"]["dimension"] == 32
    assert manifest["history"] == [
        {"what": "build", "source": "corpus-0.jsonl", "added": 5, "removed": 0}
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--set", "engine=lucene"], "choose one of files, milvus"),
        (["--set", "graph=ivf"], "--set graph: not supported by the engine files"),
        (["--set", "precision=sq8"], "--set precision=sq8"),
        (["--set", "nprob=3"], "did you mean nprobe?"),
        (["--workers", "some"], "--workers some"),
        (["--milvus", "x.db", "--encoder", "none"], "Milvus holds vectors"),
        (["--milvus", "x.db", "--add"], "--add: not supported by the engine milvus"),
    ],
)
def test_options_that_do_not_go_together(
    tmp_path: Path,
    options: list[str],
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = corpus(tmp_path, 2)
    message = fails(capsys, monkeypatch, "index", texts, "--out", tmp_path / "index", *options)
    assert expected in message
