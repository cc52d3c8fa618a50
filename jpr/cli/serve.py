"""`jpr serve`: the pipeline as a service."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jpr.cli import screen
from jpr.cli.doctor import EXTRAS
from jpr.cli.inputs import DocsOption, IndexOption, refuse_both
from jpr.errors import ConfigError, MissingExtraError
from jpr.serve.limits import ServiceLimits

if TYPE_CHECKING:
    from jpr.pipeline import Pipeline
    from jpr.serve.service import Service

NAME = "serve"
HELP = """Serve answers and rerankings over HTTP, with a page. With --mcp, serve an assistant.

What is asked is chosen as for `jpr ask`. POST /v1/rerank and /v2/rerank take what clients of Jina
and Cohere send. SIGTERM lets it finish what is under way. With JPR_TOKEN set, or --token-file,
requests need `Authorization: Bearer TOKEN`.

Example: jpr serve --docs contracts

Example: jpr serve --index wiki --host 0.0.0.0 --token-file token

Example: jpr serve --docs contracts --mcp
"""
_TOKEN = "JPR_TOKEN"
_HOST, _PORT = "127.0.0.1", 8080
_USUAL = ServiceLimits()


def run(
    docs: DocsOption = None,
    index: IndexOption = None,
    mcp: Annotated[
        bool, typer.Option("--mcp", help="Serve an assistant, on standard input and output.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to serve on.")] = _HOST,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0 for any that is free.")
    ] = _PORT,
    token_file: Annotated[
        Path | None, typer.Option(help="File that holds the token.  [default: JPR_TOKEN]")
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of a request.")] = _USUAL.body,
    max_passages: Annotated[
        int, typer.Option(min=1, help="Passages of a request.")
    ] = _USUAL.passages,
    max_characters: Annotated[
        int, typer.Option(min=1, help="Characters of a request's texts.")
    ] = _USUAL.characters,
    max_waiting: Annotated[
        int, typer.Option(min=1, help="Requests at work or waiting; more get 429.")
    ] = _USUAL.waiting,
    max_seconds: Annotated[float, typer.Option(help="Seconds for a request.")] = _USUAL.seconds,
    max_batch: Annotated[
        int, typer.Option(min=1, help="Requests that the model takes up together.")
    ] = _USUAL.batch,
) -> None:
    """Serve until told to end."""
    refuse_both(docs, index)
    if mcp:
        if (host, port, token_file) != (_HOST, _PORT, None):
            told = "--host, --port and --token-file"
            raise ConfigError(f"--mcp serves standard input and output; leave out {told}")
        _need("mcp")
        from jpr.serve.mcp import serve_mcp

        serve_mcp(_opened(docs, index))
        return
    _need("serve")
    from jpr.serve.logs import log_to
    from jpr.serve.server import Address, serve

    token, address = token_of(token_file), Address(host, port)
    if token is None and not address.is_local:
        screen.note("others than this machine can ask, and need no token; see --token-file")
    limits = ServiceLimits(
        max_body, max_passages, max_characters, max_waiting, max_seconds, max_batch
    )
    source = "documents" if docs else "index" if index else "encyclopedia"
    service = _service(_opened(docs, index), limits, source)
    log_to(sys.stderr)
    serve(service, address, token, _announce)


def _announce(url: str) -> None:
    """Tell a person at a terminal, where the log is for programs, what to do next."""
    if sys.stderr.isatty():
        screen.note(f"the page is at {url}; Ctrl-C ends it")


def _need(extra: str) -> None:
    if not all(map(find_spec, EXTRAS[extra])):
        raise MissingExtraError("jpr serve --mcp" if extra == "mcp" else "jpr serve", extra)


def token_of(file: Path | None) -> str | None:
    """Return the token that requests need, if any."""
    if file is None:
        given = os.environ.get(_TOKEN)
        where = _TOKEN
    else:
        try:
            given, where = file.read_text(encoding="utf-8"), str(file)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}: cannot be read; name a file that holds a token") from error
    if given is None:
        return None
    if not given.strip():
        raise ConfigError(f"{where}: is empty; put a token there, or leave it out")
    return given.strip()


def _opened(docs: Path | None, index: Path | None) -> "Pipeline":
    from jpr.asking import open_pipeline

    with screen.warnings_as_notes():
        return open_pipeline(docs, index, watched=screen.progress)


def _service(pipeline: "Pipeline", limits: ServiceLimits, source: str) -> "Service":
    from jpr.asking import shared_encoder
    from jpr.encode.encoder_folder import BUNDLED_ENCODER
    from jpr.formats.corpus.split import load_tokenizer
    from jpr.serve.service import Service
    from jpr.serve.uploads import UploadedCorpora

    corpora = UploadedCorpora(
        limits, load_tokenizer(BUNDLED_ENCODER), lambda: shared_encoder("auto")
    )
    return Service(pipeline, limits, corpora, source)
