"""`jpr serve`."""

import os
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import jpr
from jpr.cli import output
from jpr.cli.arguments import Arguments, Docs, IndexFolder, Settings, option
from jpr.cli.doctor import EXTRAS
from jpr.errors import MissingExtraError
from jpr.io.settings import parse_settings

if TYPE_CHECKING:
    from jpr.serve.tokens import Tokens

_TOKEN = "JPR_TOKEN"


class ServeArguments(Arguments):
    docs: Docs = None
    index: IndexFolder = None
    mcp: bool = option("Output", "Serve MCP on standard input and output.", default=False)
    host: str = option("Output", "Address to listen on.", default="127.0.0.1")
    port: int = option("Output", "Port; 0 picks a free one.", min=0, max=65535, default=8080)
    token_file: Path | None = option(
        "Input", "File of a token, or of lines NAME TOKEN.", show_default=_TOKEN
    )
    set: Settings = None

    def __post_init__(self) -> None:
        self.exclude("docs", "index")
        if self.mcp:
            why = "--mcp serves standard input and output; remove these"
            self.reject(why, "host", "port", "token_file")


def run(options: ServeArguments) -> None:
    """Serve answers and rerankings over HTTP or MCP, with a web page.

    The corpus is chosen as for `jpr ask`. POST /v1/rerank and /v2/rerank accept the requests of
    Jina's and Cohere's clients. On SIGTERM the service finishes the requests in progress, then
    exits. With JPR_TOKEN or --token-file, requests need `Authorization: Bearer TOKEN`; without one,
    the service listens on this machine only.

    Settings (--set), limits of a request: body (bytes), values (in JSON), passages, characters,
    seconds; of the service: waiting (requests in progress or queued; more get 429), connections (of
    a client's address), idle (seconds for a request's headers), batch (requests the model processes
    together), corpora (uploaded corpora kept), corpus-passages (passages of an uploaded corpus).
    Access: hosts (a name of the service that requests may use; repeatable), proxies (an address or
    network whose X-Forwarded-For is believed; repeatable), insecure (true: --host without a token).

    Example: jpr serve --docs contracts
    Example: jpr serve --index wiki --host 0.0.0.0 --token-file tokens --set waiting=64
    Example: jpr serve --docs contracts --mcp
    """
    extra, command = ("mcp", "jpr serve --mcp") if options.mcp else ("serve", "jpr serve")
    if not all(map(find_spec, EXTRAS[extra])):
        raise MissingExtraError(command, extra)
    from jpr.serve.limits import ServiceLimits, ServiceSettings

    if options.mcp:
        from jpr.serve.mcp import serve_mcp

        limits = parse_settings(ServiceLimits, options.set or ())
        serve_mcp(_pipeline(options), limits)
        return
    settings = parse_settings(ServiceSettings, options.set or ())
    from jpr.bundled import shared_encoder
    from jpr.encode.encoder_folder import BUNDLED_ENCODER
    from jpr.encode.tokenizer import read_tokenizer
    from jpr.serve.app import Address, serve
    from jpr.serve.service import Service

    address = Address(options.host, options.port)
    policy = address.policy(read_tokens(options.token_file), settings)
    tokenizer = read_tokenizer(BUNDLED_ENCODER)
    source = "documents" if options.docs else "index" if options.index else "encyclopedia"
    encoder = partial(shared_encoder, "auto")
    service = Service(_pipeline(options), settings, tokenizer, encoder, source)
    serve(service, address, policy, _announce)


def _announce(url: str) -> None:
    if sys.stderr.isatty():
        output.note(f"serving at {url}; press Ctrl-C to stop")


def read_tokens(file: Path | None) -> "Tokens | None":
    """Return the tokens of which requests need one, if any."""
    from jpr.serve.tokens import Tokens

    if file is not None:
        return Tokens.of_file(file)
    text = os.environ.get(_TOKEN)
    return None if text is None else Tokens.of_text(text, _TOKEN)


def _pipeline(options: ServeArguments) -> "jpr.Pipeline":
    with output.warnings_as_notes():
        return jpr.open_pipeline(options.docs, options.index, watched=output.progress)
