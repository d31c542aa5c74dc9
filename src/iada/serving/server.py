"""The page of `iada serve` over HTTP: one process, loopback, no request to anywhere else.

Requests must name this machine in `Host` (a foreign page could otherwise reach the server through a
name of its own: DNS rebinding), come from our own page where a browser says where they come from,
and stay below a size. Every answer forbids scripts and styles but our own. Errors say what to do
and no path of this machine; the traceback of a defect goes to the terminal.
"""

import json
import logging
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from iada.config.base import from_mapping
from iada.errors import ConfigError, IadaError
from iada.serving.workbench import SentenceRequest, TextRequest, Workbench

logger = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
"""Names under which this machine's own browser reaches the server."""
DEFECT = "Something went wrong in the server. Its terminal says what."
_HEADERS = {
    # The widths of the bars of a heat map are style attributes; text never becomes one.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_FILES = {
    "/": ("iada.serving", "page/index.html", "text/html"),
    "/workbench.js": ("iada.serving", "page/workbench.js", "text/javascript"),
    "/workbench.css": ("iada.serving", "page/workbench.css", "text/css"),
    "/page.css": ("iada.report", "templates/page.css", "text/css"),
}
"""Address -> package, file and media type."""
RequestType = TypeVar("RequestType", TextRequest, SentenceRequest)


@dataclass(frozen=True)
class Limits:
    """What the server accepts."""

    max_bytes: int
    """Longest request."""
    hosts: tuple[str, ...] = LOOPBACK
    """Values of `Host` that are answered."""


def build_app(workbench: Workbench, limits: Limits) -> Starlette:
    """Return the application: the page, and what it asks for."""
    answers = _Answers(workbench, limits)
    routes = [Route(address, _file(*place)) for address, place in _FILES.items()]
    routes += [
        Route("/api/runs", answers.runs),
        Route("/api/translate", answers.translate, methods=["POST"]),
        Route("/api/explain", answers.explain, methods=["POST"]),
    ]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(_Headers),
            Middleware(TrustedHostMiddleware, allowed_hosts=list(limits.hosts), www_redirect=False),
        ],
        exception_handlers={
            HTTPException: _refuse,
            IadaError: _explain_error,
            Exception: _admit_defect,
        },
    )


def open_socket(host: str, port: int) -> socket.socket:
    """Bind the address; 0 takes a free port.

    Raises:
        ConfigError: the address is taken or does not exist.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError(
            f"{host}:{port} cannot be used ({error.strerror}). Choose another `--port`; 0 takes "
            "a free one."
        ) from None


def serve(app: Starlette, bound: socket.socket) -> None:
    """Answer requests until the user interrupts."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run(sockets=[bound])


@dataclass(frozen=True)
class _Answers:
    workbench: Workbench
    limits: Limits

    async def runs(self, request: Request) -> Response:
        """Say what can be asked for."""
        content = {"runs": self.workbench.describe(), "max_bytes": self.limits.max_bytes}
        return JSONResponse(content)

    async def translate(self, request: Request) -> Response:
        """Stream translations as JSON lines."""
        wanted = await self._read(request, TextRequest)
        await run_in_threadpool(self.workbench.check, wanted)
        return StreamingResponse(self._lines(wanted), media_type="application/jsonl")

    async def explain(self, request: Request) -> Response:
        """Return a fragment of a page."""
        wanted = await self._read(request, SentenceRequest)
        return HTMLResponse(await run_in_threadpool(self.workbench.explain, wanted))

    def _lines(self, wanted: TextRequest) -> Iterator[str]:
        event: dict[str, object]
        try:
            for line, text in self.workbench.translate(wanted):
                event = {"line": line, "translation": text}
                yield json.dumps(event, ensure_ascii=False) + "\n"
            event = {"done": True}
        except IadaError as error:
            event = {"error": str(error)}
        except Exception:
            # The answer has begun, so its status can no longer say it.
            logger.exception("A translation failed.")
            event = {"error": DEFECT}
        yield json.dumps(event) + "\n"

    async def _read(self, request: Request, cls: type[RequestType]) -> RequestType:
        _check_origin(request)
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise HTTPException(415, "Send JSON, with `Content-Type: application/json`.")
        body = await self._body(request)
        try:
            content = json.loads(body)
        except (ValueError, RecursionError):
            raise HTTPException(400, "The request is not JSON.") from None
        if not isinstance(content, Mapping):
            raise HTTPException(400, "The request must be a JSON object.")
        return from_mapping(cls, content, where="request")

    async def _body(self, request: Request) -> bytes:
        """Read a request, but no more of it than is allowed."""
        limit = self.limits.max_bytes
        told = request.headers.get("content-length", "")
        parts: list[bytes] = []
        size = int(told) if told.isdecimal() else 0
        if size <= limit:
            size = 0
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    break
                parts.append(part)
        if size > limit:
            raise HTTPException(
                413,
                f"The document is too large: this page takes at most {limit // 1024:,} kB. "
                "Translate it in parts, or with `iada translate`.",
            )
        return b"".join(parts)


def _check_origin(request: Request) -> None:
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("//")[2] != request.headers.get("host"):
        raise HTTPException(403, "Another page sent this request.")


def _file(package: str, name: str, media_type: str) -> Any:
    async def answer(request: Request) -> Response:
        text = files(package).joinpath(name).read_text(encoding="utf-8")
        return Response(text, media_type=media_type)

    return answer


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _explain_error(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 422)


async def _admit_defect(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": DEFECT}, 500)


class _Headers:
    """Add our headers to every answer, refusals included."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self.app(scope, receive, send_with_headers)
