"""Work over Dask workers: the files of one process, byte for byte, also if a worker is killed."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jpr.batch import rerank_to_file
from jpr.encode.encoder_folder import export_encoder, load_encoder
from jpr.encode.vectors import open_vectors, vectors_for
from jpr.errors import ConfigError, JprError, MissingExtraError
from jpr.formats.corpus import write_passages
from jpr.formats.questions import write_questions
from jpr.formats.runs import write_rankings
from jpr.io.atomic import publish_folder
from jpr.io.cluster import StageSpec, cluster_runner, open_cluster
from jpr.rerank.decoding import StoppingRule, write_stopping_rule
from jpr.rerank.methods import METHODS, RerankOptions, make_reranker
from jpr.rerank.save import export_joint
from jpr.retrieve.index import build_index
from jpr.types import Question
from tests.cli.running import fails, jpr
from tests.encode.test_vectors import contents
from tests.encode.texts import WORDS, passages
from tests.encode.tiny import write_encoder
from tests.rerank.tiny import NAMES, ranking, write_pointer

if TYPE_CHECKING:
    from distributed import Client

RANKINGS = [ranking(NAMES[i % 7 :], str(i)) for i in range(20)]


@pytest.fixture(scope="module")
def client() -> Iterator["Client"]:
    with open_cluster("2") as client:
        yield client


@pytest.fixture(scope="module")
def address(client: "Client") -> str:
    return str(client.scheduler_info()["address"])


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("encoder")
    export_encoder(write_encoder(home / "torch"), home / "onnx")
    return home / "onnx"


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("joint")
    with publish_folder(home / "onnx") as made:
        export_joint(write_pointer(home / "torch", answers=True), made, [])
    write_stopping_rule(
        home / "onnx" / "joint.json", StoppingRule(-2.5, 4, "tree", 2.0, 0.95, 1.5, 10)
    )
    return home / "onnx"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    with path.open("w", encoding="utf-8") as out:
        write_rankings(RANKINGS, out)
    return path


def killing(client: "Client") -> tuple[Callable[[int], None], int]:
    """Return what kills a worker once ten things are done, and who that is."""
    victim = min(client.run(os.getpid).values())
    done = 0

    def progress(count: int) -> None:
        nonlocal done
        done += 1
        if done == 10:
            os.kill(victim, signal.SIGKILL)

    return progress, victim


def check_gone(client: "Client", victim: int) -> None:
    client.wait_for_workers(2, timeout=60)
    assert victim not in client.run(os.getpid).values()


def check_same(folder: Path, address: str, *command: object, outs: tuple[str, ...]) -> None:
    """Run a command in this process and on workers, and compare the files that it writes."""
    for place, more in (("here", ()), ("there", ("--workers", address))):
        named = [part for out in outs for part in (out, folder / f"{place}{out}")]
        jpr(*command, *named, *more)
    for out in outs:
        written = (folder / f"here{out}").read_bytes()
        assert written
        assert (folder / f"there{out}").read_bytes() == written


def test_retrieving(tmp_path: Path, address: str, encoder: Path) -> None:
    index, questions = tmp_path / "index", tmp_path / "questions.jsonl"
    build_index(
        passages(50), index, source="x", encoder=load_encoder(encoder), encoder_folder=str(encoder)
    )
    asked = [Question(str(i), f"{WORDS[i % 8]} {WORDS[i % 7]}") for i in range(70)]
    with questions.open("w", encoding="utf-8") as out:
        write_questions(asked, out)
    command = ("retrieve", index, "-q", questions, "-k", 5, "--distinct")
    check_same(tmp_path, address, *command, outs=("--out",))


@pytest.mark.parametrize("k", [3, "auto"])
def test_reranking_with_trees(
    tmp_path: Path, address: str, run: Path, joint: Path, k: object
) -> None:
    command = ("rerank", run, "--model", joint, "--set", "decoder=tree", "--set", "beta=2", "-k", k)
    check_same(tmp_path, address, *command, outs=("--out", "--trees"))


def test_reranking_by_an_encoder(tmp_path: Path, address: str, run: Path, encoder: Path) -> None:
    command = ("rerank", run, "--method", "mmr", "--set", f"encoder={encoder}", "-k", 3)
    check_same(tmp_path, address, *command, outs=("--out",))


@pytest.mark.parametrize("options", [(), ("--choose", 2)])
def test_reading(
    tmp_path: Path, address: str, run: Path, joint: Path, options: tuple[object, ...]
) -> None:
    command = ("read", run, "--model", joint, "--min-probability", 0.01, *options)
    check_same(tmp_path, address, *command, outs=("--out",))


def test_encoding(tmp_path: Path, address: str, encoder: Path) -> None:
    corpus, here, there = (tmp_path / name for name in ("corpus.tsv", "here", "there"))
    with corpus.open("w", encoding="utf-8") as stream:
        write_passages(passages(30), stream)
    jpr("index", corpus, "--vectors", here, "--encoder", encoder)
    jpr("index", corpus, "--vectors", there, "--encoder", encoder, "--workers", address)
    assert contents(there) == contents(here)
    assert open_vectors(here).count == 30


def joint_options(folder: Path) -> RerankOptions:
    return RerankOptions("joint", METHODS["joint"].settings(), folder)


def test_a_worker_lost_while_reranking(tmp_path: Path, client: "Client", joint: Path) -> None:
    options, rankings = joint_options(joint), RANKINGS * 8
    reranker = make_reranker(options)
    spec = StageSpec(make_reranker, (options.for_worker(),), reranker.key, "joint")
    spread = cluster_runner(client, spec)
    kill, victim = killing(client)
    rerank_to_file(reranker, rankings, tmp_path / "here", 3)
    rerank_to_file(reranker, rankings, tmp_path / "there", 3, kill, spread)
    check_gone(client, victim)
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()


def test_a_worker_lost_while_encoding(tmp_path: Path, client: "Client", encoder: Path) -> None:
    opened = load_encoder(encoder)
    spec = StageSpec(load_encoder, (encoder,), opened.key, "encoder")
    spread = cluster_runner(client, spec)
    kill, victim = killing(client)
    vectors_for(passages(200), opened, tmp_path / "a", chunk=5)
    vectors_for(passages(200), opened, tmp_path / "b", chunk=5, run=spread, progress=kill)
    check_gone(client, victim)
    assert contents(tmp_path / "b") == contents(tmp_path / "a")


def test_a_worker_with_another_model_is_noticed(
    tmp_path: Path, client: "Client", encoder: Path
) -> None:
    other = tmp_path / "other"
    export_encoder(write_encoder(tmp_path / "torch", seed=1), other)
    here = load_encoder(encoder)
    spread = cluster_runner(client, StageSpec(load_encoder, (other,), here.key, str(other)))
    with pytest.raises(JprError, match=f"{other}: differs between"):
        vectors_for(passages(3), here, tmp_path / "v", run=spread)


def test_what_a_worker_cannot_open_is_reported(
    tmp_path: Path, client: "Client", joint: Path
) -> None:
    reranker = make_reranker(joint_options(joint))
    opening = StageSpec(make_reranker, (joint_options(tmp_path / "none"),), reranker.key, "joint")
    with pytest.raises(JprError, match=r"on a worker: .*none"):
        rerank_to_file(reranker, RANKINGS, tmp_path / "x", 3, run=cluster_runner(client, opening))


def test_clusters_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="--workers 0"), open_cluster("0"):
        pass
    with (
        pytest.raises(ConfigError, match="nonsense:x"),
        open_cluster("tcp://nonsense:x"),
    ):
        pass


def test_dask_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'jpr\[dask\]'"), open_cluster("1"):
        pass


def test_an_endpoint_is_not_read_over_workers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, run: Path
) -> None:
    command = ("read", run, "--out", "x", "--llm", "http://a/v1", "--workers", 2)
    assert "--workers: " in fails(capsys, monkeypatch, *command)
