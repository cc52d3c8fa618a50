"""A Milvus server on loopback, in a virtual environment of its own.

It needs to be downloaded (300 MB). JPR_MILVUS names a virtual environment that has it, or where it
is to be installed and kept; otherwise it goes to a temporary folder.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jpr.errors import ConfigError
from jpr.retrieve.milvus_retriever import connect

PACKAGES = ["milvus==2.3.5", "pymilvus==2.3.7", "setuptools<80", "marshmallow==3.20.1"]


@contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """Start a server with its data in a folder, yield its address, and end it."""
    program = _installed(Path(os.environ.get("JPR_MILVUS") or folder / "venv"))
    port = _free_port()
    command = [str(program), "--data", str(folder / "data"), "--proxy-port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_until_ready(uri := f"http://127.0.0.1:{port}", process)
        yield uri
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # asked politely, it takes its time
        process.wait()


def _installed(home: Path) -> Path:
    """Return the server's program, installed if need be."""
    program = home / "bin" / "milvus-server"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(home / "bin" / "pip"), "install", "-q", *PACKAGES], check=True)
    return program


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_until_ready(uri: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            connect(uri).list_collections()
            return
        except ConfigError:
            time.sleep(0.5)
    raise TimeoutError("the Milvus server did not start")
