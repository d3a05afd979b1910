"""The line to a server, measured: round trips, and how far the clocks are apart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from ..backends.survey import Reader
from ..core.policy import check_margin
from ..errors import BackendError
from .finding import Finding, Level

PINGS = 100
LONGEST = 3.0
"""Seconds after which no more are sent."""
TTL = 30.0
REQUEST_TIMEOUT = 5.0
"""The defaults of a manager."""
FAR = 1.0
"""Seconds that clocks may be apart without a word."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line.

    Attributes:
        pings: how many round trips were measured.
        p50: the median, in seconds.
        p99: the 99th percentile.
        ahead: seconds by which the server's clock is ahead of ours.
        unsure: by how much that may be wrong.
    """

    pings: int
    p50: float
    p99: float
    ahead: float
    unsure: float


async def measure(master: Reader) -> Measurement:
    """Send up to 100 requests, one after another.

    Raises:
        BackendError: it does not answer.
    """
    trips: list[float] = []
    best, ahead, began = float("inf"), 0.0, time.perf_counter()
    while len(trips) < PINGS and (time.perf_counter() - began < LONGEST or not trips):
        wall, start = time.time(), time.perf_counter()
        (clock,) = await master.ask([("TIME",)])
        trip = time.perf_counter() - start
        trips.append(trip)
        match clock:
            case [bytes() as seconds, bytes() as micros]:
                if trip < best:
                    best, ahead = trip, int(seconds) + int(micros) / 1e6 - (wall + trip / 2)
            case error:
                raise BackendError("", f"Redis refused TIME: {error}")
    ordered = sorted(trips)
    return Measurement(
        len(trips), ordered[len(trips) // 2], ordered[min(len(trips) - 1, len(trips) * 99 // 100)], ahead, best / 2
    )


def judge_line(measured: Measurement) -> Iterator[Finding]:
    """What the figures mean for ttl and margin."""
    slow = measured.p99 > REQUEST_TIMEOUT / 20
    shortest = max(0.1, 20 * measured.p99)
    ttl = max(0.5, 3 * shortest)
    text = f"{_ms(measured.p50)} at the median, {_ms(measured.p99)} at the 99th percentile of {measured.pings}"
    yield Finding("latency", Level.ADVICE if slow else Level.OK, text, "move closer to the server" if slow else "")
    far = abs(measured.ahead) > FAR
    yield Finding(
        "clock",
        Level.ADVICE if far else Level.OK,
        f"the server's is {_ms(abs(measured.ahead))} {'ahead' if measured.ahead > 0 else 'behind'}, "
        f"give or take {_ms(measured.unsure)}",
        "locks do not compare the two, but a clock that is set right jumps, and a jump of the server's may end leases: "
        "let NTP keep both" if far else "",
    )  # fmt: skip
    fits = "barely suit this line" if slow else "suit this line"
    yield Finding("sizing", Level.OK, f"the defaults (ttl 30 s, margin 3 s, request_timeout 5 s) {fits}")
    least = f"ttl {ttl:.1f} s, margin {check_margin('', None, ttl):.2f} s, request_timeout {shortest:.1f} s"
    yield Finding("sizing", Level.OK, f"the shortest that it bears: {least}")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
