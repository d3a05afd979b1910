"""The Sentinels of one service: whom they name as the master, and how its servers are reached."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...errors import AiolockError, BackendError, ConfigurationError
from ...scripts.view import pairs_of
from ..resolver import Resolver
from .clients import Client, Recipe, adapted, of_host, of_sentinel, of_url
from .connection import Asker, ServerConnector
from .failures import ErrorReply, refused, unknown
from .seeds import Address, connector_at

PORT = 26379
PATIENCE = 0.5
"""Seconds that the others get when one has answered."""


class Report(NamedTuple):
    """What one Sentinel says.

    Attributes:
        master: where the master is.
        epoch: how often it was replaced; a greater number is newer.
        replicas: how many replicas it has, connected or not.
        others: how many Sentinels there are beside this one.
        failing_over: this Sentinel replaces the master at the moment.
        sentinel: where it is.
    """

    master: Address
    epoch: int
    replicas: int
    others: int
    failing_over: bool
    sentinel: str


class Sentinels:
    """Those that watch one service.

    Args:
        source: `(host, port)` or a URL for each, or a client that one of them made.
        service: what they call the master; a client knows it.
        username: of the servers.
        password: of the servers.
        db: the database's number.

    Attributes:
        service: as given.
        connectors: one for each Sentinel.

    Raises:
        ConfigurationError: no address or none of a Sentinel, no service, or a client that cannot be used.
    """

    def __init__(
        self,
        source: Sequence[tuple[str, int] | str] | Client,
        service: str = "",
        username: str | None = None,
        password: str | None = None,
        db: int = 0,
    ) -> None:
        if isinstance(source, Sequence):
            sentinels = [_recipe(one) for one in ([] if isinstance(source, str) else source)]
            credentials = {"username": username, "password": password, "db": db}
            self._recipe: Recipe = of_host("", 0)[0], {key: value for key, value in credentials.items() if value}
            self.service: str = service
        else:
            self.service, self._recipe, sentinels = of_sentinel(source)
        if not sentinels or not self.service or not isinstance(self.service, str):
            raise ConfigurationError(
                "", "Sentinels need a list of addresses and the master's name: "
                "LockManager.sentinel([(host, 26379), …], service='mymaster')"
            )  # fmt: skip
        self._resolver = Resolver()
        self.connectors: list[ServerConnector] = [
            ServerConnector(adapted(made, 3), resolver=self._resolver) for made in sentinels
        ]
        self.server(Address("localhost", 0), True)  # finds bad options

    def server(self, address: Address, pushes: bool) -> ServerConnector:
        """Return what connects to the server at `address`; `pushes`: messages may arrive between replies."""
        return connector_at(address, self._recipe, pushes, self._resolver)

    async def ask(self) -> list[Report]:
        """Ask all at once; one of them must answer.

        Raises:
            ConfigurationError: none that answers knows the service.
            BackendError: none answers.

        Cancellation: nothing is left open. Cost: a connection to each.
        """
        tasks = {asyncio.ensure_future(self._ask(connector)) for connector in self.connectors}
        left = tasks
        try:
            while left and not any(isinstance(report, Report) for report in _results(tasks - left)):
                _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            if left:
                await asyncio.wait(left, timeout=PATIENCE)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        reports = [report for report in _results(tasks) if isinstance(report, Report)]
        if reports:
            return reports
        errors = [result for result in _results(tasks) if isinstance(result, AiolockError)]
        raise next((error for error in errors if isinstance(error, ConfigurationError)), errors[0])

    async def _ask(self, connector: ServerConnector) -> Report | AiolockError:
        service = self.service.encode()
        try:
            asker = Asker(connector)
            address, state = await asker.ask(
                [(b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", service), (b"SENTINEL", b"MASTER", service)]
            )
            await asker.close()
        except AiolockError as failure:
            transient = isinstance(failure, BackendError) and failure.transient
            return BackendError("", f"the Sentinel at {connector.address} does not answer: {failure}", transient)
        if isinstance(address, list) and not isinstance(state, ErrorReply):
            return _report(connector.address, address, dict(pairs_of(state)))
        if address is None or "No such master" in str(state):
            return ConfigurationError(
                "", f"the Sentinel at {connector.address} knows no master {self.service!r}: check service="
            )
        if unknown(str(address)):
            return ConfigurationError("", f"the server at {connector.address} is not a Sentinel: use LockManager(url)")
        refusal = address if isinstance(address, ErrorReply) else ErrorReply(str(state))
        return refused("", f"the Sentinel at {connector.address} to name the master", refusal)


def _results(tasks: Iterable[asyncio.Future[Report | AiolockError]]) -> list[Report | AiolockError]:
    return [task.result() for task in tasks if task.done() and not task.cancelled()]


def _report(sentinel: str, address: list[bytes], state: dict[str, str]) -> Report:
    return Report(
        Address(address[0].decode(), int(address[1])),
        int(state.get("config-epoch", 0)),
        int(state.get("num-slaves", 0)),
        int(state.get("num-other-sentinels", 0)),
        "failover_in_progress" in state.get("flags", ""),
        sentinel,
    )


def _recipe(sentinel: tuple[str, int] | str) -> Recipe:
    if isinstance(sentinel, str):
        kind, options = of_url(sentinel)
        return kind, {"port": PORT, **{key: value for key, value in options.items() if key != "db"}}
    try:
        host, port = sentinel
        return of_host(str(host), int(port))
    except (TypeError, ValueError):
        raise ConfigurationError("", "the address of a Sentinel is (host, port), or a URL") from None
