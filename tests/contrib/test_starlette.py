"""A lock in an endpoint, and errors that become responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint, WebSocketEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from aiolock import BackendError, ConfigurationError, LockLost, LockManager, LossReason
from aiolock.contrib.starlette import exception_handlers, get_locks, lifespan
from aiolock.recipes import current_lease, exclusive
from tests.contrib.conftest import NAME, Work

KEY = "order:{request.path_params[order_id]}"


class Order(HTTPEndpoint):
    @exclusive(get_locks, key=KEY, busy="raise")
    async def post(self, request: Request) -> Response:
        lease = current_lease()
        assert lease is not None
        return JSONResponse(lease.fence)


class Orders(WebSocketEndpoint):
    encoding = "text"

    @exclusive(get_locks, key="order:{data}", busy="raise")
    async def on_receive(self, websocket: WebSocket, data: str) -> None:
        await websocket.send_text("shipped")


class LockedStream(StreamingResponse):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with get_locks(Request(scope)).lock(NAME):
            await super().__call__(scope, receive, send)


async def chat(socket: WebSocket) -> None:
    """Ends badly when one of both sides has closed the socket."""
    await socket.accept()
    async with get_locks(socket).lock(NAME):
        if socket.path_params["side"] == "server":
            await socket.close()
        else:
            await socket.receive()
        raise LockLost(NAME, "lost", LossReason.EXPIRED)


async def endless() -> AsyncIterator[str]:
    while True:
        yield "row"
        await asyncio.sleep(0)


@pytest.mark.parametrize("version", ["2.3", "2.4"])
async def test_a_stream_whose_client_goes_away(app: Starlette, elsewhere: LockManager, version: str) -> None:
    """How a server says that depends on its ASGI. As docs/how-to/frameworks.md has it."""
    sent, gone = asyncio.Event(), asyncio.Event()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.set()
        if gone.is_set():
            raise OSError

    scope = {"type": "http", "asgi": {"spec_version": version}, "app": app}
    async with app.router.lifespan_context(app):
        task = asyncio.ensure_future(LockedStream(endless())(scope, receive, send))
        await sent.wait()
        assert await elsewhere.lock(NAME).is_locked()
        gone.set()
        async with elsewhere.lock(NAME).acquire(timeout=5.0) as lease:
            assert not lease.abandoned
        await asyncio.wait([task])
        assert not isinstance(task.exception(), LockLost)


async def misconfigured(request: Request) -> Response:
    raise BackendError(NAME, "NOPERM")


async def mounted(request: Request) -> Response:
    get_locks(request)
    return Response()


@pytest.fixture
def app(redis_url: str, work: Work) -> Starlette:
    """An application that locks orders."""

    @exclusive(get_locks, key=KEY)
    async def ship(request: Request) -> Response:
        await work()
        return Response()

    async def stream(request: Request) -> Response:
        async def chunks() -> AsyncIterator[str]:
            yield "a"
            await work()

        return LockedStream(chunks())

    return Starlette(
        routes=[
            Route("/order/{order_id:int}/ship", ship, methods=["POST"]),
            Route("/order/{order_id:int}", Order),
            Route("/stream", stream),
            WebSocketRoute("/chat/{side}", chat),
            WebSocketRoute("/orders", Orders),
            Route("/misconfigured", misconfigured),
            Mount("/below", Starlette(routes=[Route("/", mounted)])),
        ],
        lifespan=lifespan(LockManager(redis_url)),
        exception_handlers=exception_handlers(busy=423, retry_after=3),
    )


@pytest.fixture
async def client(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the running application."""
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://shop") as it:
        yield it


async def test_an_endpoint_class(client: httpx.AsyncClient, elsewhere: LockManager) -> None:
    """`get_locks()` takes the endpoint object for the request."""
    assert (await client.post("/order/42")).json() > 0
    async with elsewhere.lock(NAME):
        answer = await client.post("/order/42")
    assert (answer.status_code, answer.headers["Retry-After"]) == (423, "3")


async def test_a_web_socket_endpoint(app: Starlette, client: httpx.AsyncClient, elsewhere: LockManager) -> None:
    """Each message takes its lock; one that finds it held closes the socket."""
    received: asyncio.Queue[Message] = asyncio.Queue()
    sent: asyncio.Queue[Message] = asyncio.Queue()
    scope = {"type": "websocket", "path": "/orders", "headers": [], "query_string": b"", "subprotocols": []}
    received.put_nowait({"type": "websocket.connect"})
    received.put_nowait({"type": "websocket.receive", "text": "42"})
    connection = asyncio.create_task(app(scope, received.get, sent.put))
    async with asyncio.timeout(10):
        assert (await sent.get())["type"] == "websocket.accept"
        assert (await sent.get())["text"] == "shipped"
        async with elsewhere.lock(NAME):
            received.put_nowait({"type": "websocket.receive", "text": "42"})
            assert (await sent.get())["code"] == 1013
        await connection


async def test_the_lock_is_lost(client: httpx.AsyncClient, work: Work, elsewhere: LockManager) -> None:
    request = asyncio.create_task(client.post("/order/42/ship"))
    await work.begun.wait()
    await elsewhere.lock(NAME).force_release()
    answer = await request
    assert (answer.status_code, work.cancelled) == (503, 1)


async def test_the_server_cancels_a_request(client: httpx.AsyncClient, work: Work, elsewhere: LockManager) -> None:
    """As a server may that gives up on its client."""
    request = asyncio.create_task(client.post("/order/42/ship"))
    await work.begun.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    async with elsewhere.lock(NAME).acquire(timeout=5.0) as lease:
        assert not lease.abandoned


async def test_shutdown_with_a_request_inside(app: Starlette, work: Work) -> None:
    """Servers let requests end first; one that does not becomes a 503, and its lock is given back."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://shop") as client:
        async with app.router.lifespan_context(app):
            request = asyncio.create_task(client.post("/order/42/ship"))
            await work.begun.wait()
        answer = await request
    assert (answer.status_code, work.cancelled) == (503, 1)


async def test_a_response_that_has_begun(client: httpx.AsyncClient, work: Work, elsewhere: LockManager) -> None:
    """It cannot become a 503 any more: the server closes the connection."""
    request = asyncio.create_task(client.get("/stream"))
    await work.begun.wait()
    await elsewhere.lock(NAME).force_release()
    with pytest.raises(RuntimeError, match="response already started"):
        await request


@pytest.mark.parametrize("side", ["server", "client"])
async def test_a_web_socket_that_is_closed_already(app: Starlette, client: httpx.AsyncClient, side: str) -> None:
    """Nobody can be told of the loss, and a second close would be the server's error."""
    messages = iter([{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1001}])
    sent: list[str] = []

    async def receive() -> Message:
        return next(messages)

    async def send(message: Message) -> None:
        sent.append(message["type"])

    scope = {"type": "websocket", "path": f"/chat/{side}", "headers": [], "query_string": b"", "subprotocols": []}
    await app(scope, receive, send)
    assert sent == ["websocket.accept", "websocket.close"][: 2 if side == "server" else 1]


async def test_mistakes_are_raised(client: httpx.AsyncClient) -> None:
    """So the server logs them, and answers 500."""
    with pytest.raises(BackendError, match="NOPERM"):
        await client.get("/misconfigured")
    with pytest.raises(ConfigurationError, match="a mounted application needs its own"):
        await client.get("/below/")
