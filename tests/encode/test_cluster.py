import os
import signal
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from jpr.cli import encode as command
from jpr.corpus import write_passages
from jpr.encode.cluster import local_cluster, over_workers, remote_cluster
from jpr.encode.folder import load_encoder
from jpr.encode.save import export_encoder
from jpr.encode.vectors import encode_to_folder, open_vectors
from jpr.errors import ConfigError, JprError, MissingExtraError
from tests.encode.test_vectors import contents
from tests.encode.texts import passages
from tests.encode.tiny import write_encoder


def test_a_lost_worker_costs_its_chunk_not_the_job(tmp_path: Path) -> None:
    model = tmp_path / "encoder"
    export_encoder(write_encoder(tmp_path / "torch"), model)
    encoder = load_encoder(model)
    encode_to_folder(passages(200), encoder, tmp_path / "here", chunk=5)
    with local_cluster(2) as client:
        first = set(client.run(os.getpid).values())
        done = 0

        def kill_one(count: int) -> None:
            nonlocal done
            done += 1
            if done == 10:
                os.kill(min(first), signal.SIGKILL)

        encode_to_folder(
            passages(200),
            encoder,
            tmp_path / "there",
            chunk=5,
            map_chunks=over_workers(client, model),
            progress=kill_one,
        )
        assert done == 40
        client.wait_for_workers(2, timeout=30)
        assert min(first) not in client.run(os.getpid).values()
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_a_worker_with_another_encoder_is_noticed(tmp_path: Path) -> None:
    here, there = write_encoder(tmp_path / "here"), write_encoder(tmp_path / "there", seed=1)
    with (
        local_cluster(1) as client,
        pytest.raises(JprError, match="holds another encoder on a worker than here"),
    ):
        encode_to_folder(
            passages(3), load_encoder(here), tmp_path / "v", map_chunks=over_workers(client, there)
        )


def test_clusters_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="--workers 0: start at least one"), local_cluster(0):
        pass
    with (
        pytest.raises(ConfigError, match="--scheduler nonsense:x: no scheduler answers"),
        remote_cluster("nonsense:x"),
    ):
        pass


def test_dask_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'jpr\[dask\]'"), local_cluster(1):
        pass


def jpr(*arguments: object) -> str:
    app = typer.Typer()
    app.command(command.NAME, help=command.HELP)(command.run)
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_encodes_here_and_on_a_cluster(tmp_path: Path) -> None:
    model, corpus = write_encoder(tmp_path / "encoder"), tmp_path / "corpus.tsv"
    with corpus.open("w", encoding="utf-8") as stream:
        write_passages(passages(30), stream)
    said = jpr(corpus, "--out", tmp_path / "here", "--encoder", model)
    assert said == f"jpr: 30 vectors of 32 numbers are in {tmp_path / 'here'}\n"
    with local_cluster(1) as client:
        address = client.scheduler_info()["address"]
        jpr(corpus, "--out", tmp_path / "there", "--encoder", model, "--scheduler", address)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert open_vectors(tmp_path / "here").count == 30
    with pytest.raises(ConfigError, match="choose one"):
        jpr(corpus, "--out", tmp_path / "x", "--workers", 2, "--scheduler", "tcp://a:1")
