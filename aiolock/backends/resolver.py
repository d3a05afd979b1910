"""Where the server is that has a host name."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

PATIENCE = 0.5
"""Seconds for a new answer, if the last one is known."""
Place = tuple[str, int]
Found = Sequence[tuple[int, int, int, str, Any]]
"""As `socket.getaddrinfo` returns it."""


class Resolver:
    """Looks up host names, each in a thread of its own, and connects to what it finds.

    The threads of the loop would be no help: the jobs of an application may fill them, and a resolver that says nothing
    would fill them in turn. All attempts share one look-up, so a name has one thread at most. It dies with the process.
    """

    def __init__(self) -> None:
        self._asked: dict[Place, Future[Found]] = {}
        self._known: dict[Place, Found] = {}

    async def connect(self, host: str, port: int) -> socket.socket:
        """Return a socket that is connected to the first address of `host` that takes connections.

        Raises:
            OSError: no address is known, or none takes connections.

        Cancellation: nothing is left open. Cost: a thread, unless `host` is an address.
        """
        refusals = []
        for family, kind, protocol, _, address in await self.find(host, port):
            try:
                opened = socket.socket(family, kind, protocol)
            except OSError as error:
                refusals.append(error)
                continue
            try:
                opened.setblocking(False)
                await asyncio.get_running_loop().sock_connect(opened, address)
            except OSError as error:
                opened.close()
                refusals.append(error)
            except BaseException:
                opened.close()
                raise
            else:
                return opened
        why = "; ".join(dict.fromkeys(map(str, refusals)))
        raise OSError(f"{host}:{port} takes no connections ({why})") from refusals[0]

    async def find(self, host: str, port: int) -> Found:
        """Return the addresses of `host`; the last ones, if the resolver does not answer.

        Raises:
            OSError: there are none.

        Cancellation: the look-up goes on, for the next that asks.
        """
        if _is_address(host):
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        place = host, port
        known = self._known.get(place)
        try:
            asked = self._asked.get(place) or self._ask(place)
            async with asyncio.timeout(PATIENCE if known else None):
                return await asyncio.wrap_future(asked)
        except TimeoutError:
            if known:
                return known
            raise
        except (OSError, RuntimeError) as error:
            # An answer, even that there is no such name, counts; the name may have another owner by now.
            if known and isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
                return known
            raise OSError(f"no address of {host} can be found ({error})") from error

    def _ask(self, place: Place) -> Future[Found]:
        asked: Future[Found] = Future()
        asked.set_running_or_notify_cancel()  # so that nobody who gives up cancels it for the others
        self._asked[place] = asked
        try:
            threading.Thread(target=self._look_up, args=(place, asked), name="aiolock resolver", daemon=True).start()
        except RuntimeError:
            del self._asked[place]
            raise
        return asked

    def _look_up(self, place: Place, asked: Future[Found]) -> None:
        try:
            found = self._known[place] = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)
        except BaseException as error:
            self._asked.pop(place, None)
            asked.set_exception(error)
        else:
            self._asked.pop(place, None)
            asked.set_result(found)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
