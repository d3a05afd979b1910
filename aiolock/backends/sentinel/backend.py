"""The master of a service as one server, whoever that is at the moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from ...clock import Clock, SystemClock
from ...errors import AiolockError, BackendError
from ...event_log import log_event
from ...events import Event
from ...log import Log
from ..base import Abilities
from ..presence import PRESENCE, Presence
from ..redis import Handshake, RedisBackend, Replicas
from ..redis.seeds import Address
from ..redis.sentinels import Sentinels
from ..replicated import ReplicatedBackend
from ..worker import Worker
from .connector import MasterConnector
from .master import Master
from .watch import Watch
from .witness import SETTLED, UNCONFIRMED, Witness

logger: Log = Log("aiolock.sentinel")

HELLO = "__sentinel__:hello"
"""The channel on which each Sentinel says, every two seconds and on the master itself, whom it takes for the master."""
_PAUSE = 0.2


class SentinelBackend(ReplicatedBackend):
    """Two connections to the master that Sentinels name, and one to each Sentinel; implements `Backend`.

    A grant or an extension counts only if the master still had its replicas when it was written, or if the Sentinels
    have confirmed the master since; or, with `replicas`, if these have acknowledged it. So what an old master says
    after a promotion does not count, although it answers for another ten seconds. It is left as soon as a Sentinel says
    that there is another.

    Args:
        sentinels: whom to ask.
        clock: stamps calls.
        request_timeout: seconds in which the server must answer.
        replicas: the replicas that must acknowledge a grant; None for none.
        pushes: False if there will be no subscription.
        channel: one without listeners, for the question whether messages may be published; "" to ask nothing.
        tell: told when a connection to the master is lost, and when it is back.
        presence: how the servers know it.

    Attributes:
        address: the service.
        abilities: as those of two backends of one server; without `replicas` it hears of a failover a moment later.
    """

    def __init__(
        self,
        sentinels: Sentinels,
        *,
        clock: Clock | None = None,
        request_timeout: float = 5.0,
        replicas: Replicas | None = None,
        pushes: bool = True,
        channel: str = "",
        tell: Callable[[Event], None] = log_event,
        presence: Presence = PRESENCE,
    ) -> None:
        self.address: str = sentinels.service
        self.abilities: Abilities = Abilities(notice=SETTLED if replicas is None else 0.0)
        self._sentinels = sentinels
        self._pushes = pushes
        self._reconnected: Callable[[], None] | None = None  # while it is open
        self._inquiry: Worker[None] | None = None
        self._asked_again = False
        clock = clock or SystemClock()
        self._master = Master(clock, self._changed)
        self._witness = Witness(clock, self._inquire)
        self._watch = Watch(sentinels.connectors, request_timeout, self._switched, presence)
        witness = self._witness if replicas is None else None
        self._timeout = request_timeout
        self._connectors = (
            MasterConnector(sentinels, self._master, pushes),
            MasterConnector(sentinels, self._master, True, witness),
        )
        plain, checked = self._connectors
        self._backends = (
            RedisBackend(
                plain,
                clock=clock,
                request_timeout=request_timeout,
                pushes=pushes,
                handshake=Handshake(channel=channel),
                tell=tell,
                presence=presence,
            ),
            RedisBackend(
                checked,
                clock=clock,
                request_timeout=request_timeout,
                replicas=replicas or witness,
                tell=tell,
                presence=presence,
            ),
        )
        super().__init__(*self._backends, lambda: plain.at)

    def __repr__(self) -> str:
        return f"<SentinelBackend {self.address!r} master={self._master.address}>"

    @property
    def run_id(self) -> str:
        """Identifies the master; "" if unknown."""
        return self._backends[0].run_id

    @property
    def unreachable(self) -> AiolockError | None:
        """See `Backend`: or a master that nobody confirms."""
        return super().unreachable or (
            None if self._witness.since is None else BackendError("", UNCONFIRMED, transient=True)
        )

    def away(self, key: str) -> AiolockError | None:
        """See `Backend.away`."""
        return self.unreachable

    async def open(
        self, *, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None
    ) -> None:
        """See `Backend.open`."""
        self._inquiry = None  # of a loop that was closed
        self._witness.closing = False
        await super().open(timeout=timeout, reconnected=partial(self._verify, reconnected), needed=needed)
        self._reconnected = reconnected
        self._watch.start(needed)
        if self._pushes:
            self.subscribe(HELLO, self._hear)
        self._changed()  # while it connected

    async def aclose(self) -> None:
        """See `Backend.aclose`."""
        self._reconnected = None
        self._witness.closing = True
        inquiry, self._inquiry = self._inquiry, None
        if inquiry is not None:
            inquiry.stop()
        try:
            await super().aclose()
        finally:
            await self._watch.stop()
            if inquiry is not None:
                await inquiry.stopped()

    def _verify(self, reconnected: Callable[[], None]) -> None:
        self._changed()
        reconnected()

    def _changed(self) -> None:
        """Leave a server that is no longer the master."""
        if self._reconnected is None:
            return
        for connector, backend in zip(self._connectors, self._backends, strict=True):
            if connector.at != self._master.address:
                backend.replace(ConnectionError(f"the Sentinels of {self.address!r} have chosen another master"))

    def _switched(self, message: str | None) -> None:
        fields = (message or "").split()
        if len(fields) == 5 and fields[0] == self.address:
            old = Address(fields[1], int(fields[2]))
            self._master.leave(old)
            for connector, backend in zip(self._connectors, self._backends, strict=True):
                if connector.at == old:
                    backend.replace(ConnectionError(f"a Sentinel has replaced the master of {self.address!r}"))
        self._inquire()

    def _hear(self, message: str | BackendError | None) -> None:
        if isinstance(message, str):
            fields = message.split(",")
            if len(fields) == 8 and fields[4] == self.address:
                self._master.learn(Address(fields[5], int(fields[6])), int(fields[7]))
        elif message is not None:
            logger.info("%s; the Sentinels' own messages remain", message)

    def _inquire(self) -> None:
        """Ask the Sentinels, until there is no doubt."""
        self._asked_again = True
        if self._inquiry is None and self._reconnected is not None:
            self._inquiry = Worker(self._ask, self._inquired, "aiolock sentinels")

    async def _ask(self) -> None:
        while self._asked_again or self._witness.since is not None:
            self._asked_again = False
            asked_at, count = self.clock.now(), len(self._sentinels.connectors)
            try:
                async with asyncio.timeout(self._timeout):
                    reports = await self._sentinels.ask()
                address = self._master.choose(reports, count)
            except (AiolockError, TimeoutError) as error:
                logger.debug("the Sentinels of %r do not say who the master is: %s", self.address, error)
            else:
                agreeing = [report for report in reports if report.master == address == self._connectors[1].at]
                everyone = 1 + max((report.others for report in agreeing), default=count)
                unanimous = len(agreeing) >= everyone and not any(report.failing_over for report in agreeing)
                disputed = any(report.master != address for report in reports)
                agreed = len(agreeing) >= min(everyone // 2 + 1, count)
                self._witness.confirm(asked_at, unanimous, agreed, disputed)
            if self._witness.since is not None:
                await asyncio.sleep(_PAUSE)

    def _inquired(self, _: None) -> None:
        self._inquiry = None
        if self._asked_again:
            self._inquire()
