"""The service over HTTP: its paths, the web page, the middleware around them, and its server."""

import asyncio
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request, UploadFile
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

import jpr
from jpr.errors import ConfigError
from jpr.retrieve.retrievers import hits_json
from jpr.serve.access import AccessPolicy, is_loopback
from jpr.serve.bodies import BoundedRoute
from jpr.serve.connections import BoundedProtocol
from jpr.serve.engine import RerankResult
from jpr.serve.limits import CannotStoreError, ServiceSettings
from jpr.serve.logs import log_event, log_to_stderr
from jpr.serve.middleware import RequestMiddleware
from jpr.serve.responses import HANDLED, StrictJson, handle_error, handle_lack
from jpr.serve.schemas import AskRequest, RerankRequest, RerankResponse, SearchRequest
from jpr.serve.service import Service
from jpr.serve.tokens import Tokens

WEB = Path(__file__).parent / "web"
_PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
router = APIRouter(route_class=BoundedRoute)


def make_app(service: Service, policy: AccessPolicy) -> ASGIApp:
    """Return the ASGI app of a service, which closes it at shutdown."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with policy.tokens.watched() if policy.tokens else nullcontext():
            yield
        await asyncio.to_thread(service.close)

    page = _Page(directory=WEB, html=True)
    files = ["", *(file.name for file in WEB.iterdir())]
    app = FastAPI(
        title="jpr",
        version=jpr.__version__,
        summary="The k passages that together cover every distinct answer.",
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        exception_handlers={
            **dict.fromkeys(HANDLED, handle_error),
            **dict.fromkeys((OSError, MemoryError, CannotStoreError), handle_lack),
        },
        routes=[Route(f"/{name}", page, methods=["GET"]) for name in files],
    )
    app.state.service = service
    app.include_router(router)
    paths = {route.path for route in router.routes if isinstance(route, Route)}
    return RequestMiddleware(app, service, policy, paths | {f"/{name}" for name in files})


class _Page(StaticFiles):
    """The files of the page, which load nothing from elsewhere."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_PAGE_HEADERS)
        return response


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _client(request: Request) -> str:
    client: str = request.state.client
    return client


ServiceOf = Annotated[Service, Depends(_service)]
ClientOf = Annotated[str, Depends(_client)]
"""Who sent a request, for the turns of clients."""


@router.get("/healthz")
async def healthz(service: ServiceOf) -> dict[str, str | int]:
    """Return the version, the model and the kind of corpus of a running service."""
    return {
        "status": "ok",
        "version": jpr.__version__,
        "model": service.name,
        "corpus": service.source,
        "k": service.pipeline().k,
    }


@router.get("/readyz")
async def readyz(service: ServiceOf) -> dict[str, str]:
    """Return 503 if the model or the first stage is stuck, so that new requests would wait."""
    if not service.is_ready:
        raise HTTPException(503, "the model does not proceed; if it stays so, restart the service")
    return {"status": "ready"}


@router.get("/metrics", response_class=Response)
async def metrics(service: ServiceOf) -> Response:
    """Return metrics for Prometheus."""
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)


@router.post("/v1/rerank", response_model=RerankResponse)
@router.post("/v2/rerank", response_model=RerankResponse)
async def rerank(
    body: RerankRequest, service: ServiceOf, client: ClientOf, request: Request
) -> JSONResponse:
    """Choose from documents, in the format of Jina and Cohere's version 1 or of Cohere's 2."""
    version = 1 if request.scope["route"].path == "/v1/rerank" else 2
    request.state.log_fields["passages"] = len(body.documents)
    job = await service.in_thread(partial(body.job, service), client)
    found = await service.model.run(job, client)
    assert isinstance(found, RerankResult)
    response = partial(body.response, found, version, service.name)
    return await service.in_thread(lambda: StrictJson(response()), client)


@router.post("/v1/ask")
async def ask(body: AskRequest, service: ServiceOf, client: ClientOf) -> JSONResponse:
    """Answer a question."""
    return StrictJson(await service.model.run(body.job(service), client))


@router.post("/v1/search")
async def search(body: SearchRequest, service: ServiceOf, client: ClientOf) -> JSONResponse:
    """Return passages of the first stage."""
    found = await service.first_stage.run(body.job(service), client)
    return await service.in_thread(lambda: StrictJson({"hits": hits_json(found)}), client)


@router.post("/v1/corpora", status_code=201)
async def corpora(
    files: list[UploadFile], service: ServiceOf, client: ClientOf, request: Request
) -> JSONResponse:
    """Make a corpus of uploaded files."""
    request.state.log_fields["files"] = len(files)
    given = [(file.filename or "", await file.read()) for file in files]
    corpus = await service.uploads.run(given, client)
    made = {"corpus": corpus.id, "passages": corpus.passages, "left_out": corpus.left_out}
    return StrictJson(made, 201)


@dataclass(frozen=True, slots=True)
class Address:
    """Where the service listens."""

    host: str = "127.0.0.1"
    port: int = 0  # 0 for any free port

    def bind(self) -> socket.socket:
        """Return a socket that listens there."""
        try:
            info = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            bound = socket.create_server(info[4][:2], family=info[0], backlog=2048)
        except OSError as error:
            reason = str(error.strerror or error).partition(" (while attempting")[0]
            where = f"{self.host}:{self.port}"
            raise ConfigError(f"{where}: {reason}; use another --host or --port") from error
        # Connections inherit it; without it, each response on an open one takes 40 ms more.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return bound

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    def policy(self, tokens: Tokens | None, settings: ServiceSettings) -> AccessPolicy:
        """Return who may send requests; other machines need a token, unless `insecure` is set."""
        if tokens is None and not self.is_local and not settings.insecure:
            problem = f"--host {self.host}: other machines could send requests without a token"
            raise ConfigError(f"{problem}; give --token-file, or --set insecure=true")
        is_open = tokens is not None and not self.is_local and not settings.hosts
        names = ("localhost", *(name.lower() for name in settings.hosts))
        return AccessPolicy(tokens, None if is_open else names, settings.proxies)


def serve(
    service: Service,
    address: Address,
    policy: AccessPolicy,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish running requests; call `ready` with the URL.

    Logs are sent to standard error.
    """
    log_to_stderr()
    server = make_server(service, policy)

    def end(*_: object) -> None:  # before uvicorn has its own handler; it raises the signal again
        server.should_exit = True

    with address.bind() as bound, closing(service):
        host, port = bound.getsockname()[:2]
        url = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
        signal.signal(signal.SIGTERM, end)
        log_event("serving", url=url, model=service.name, token=policy.tokens is not None)
        ready(url)
        asyncio.run(server.serve(sockets=[bound]))
    log_event("ended")


def make_server(service: Service, policy: AccessPolicy) -> uvicorn.Server:
    """Return the HTTP server of a service."""
    protocol = partial(BoundedProtocol, service.limits, policy, Counter[str]())
    return uvicorn.Server(
        uvicorn.Config(
            make_app(service, policy),
            http=protocol,  # type: ignore[arg-type]
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(policy.proxies),
            forwarded_allow_ips=list(policy.proxies),
            limit_concurrency=1000,  # further connections are closed with 503
            timeout_graceful_shutdown=int(service.limits.seconds) + 1,
        )
    )
