"""A module-level manager and forks, before and after you enter it."""

from __future__ import annotations

import asyncio

import httpx

from .conftest import Crew


async def test_gunicorn_preload(crew: Crew) -> None:
    """C1: two workers forked from one import never both enter. Kept by Runtime.bind: the id is drawn at entry."""
    socket = crew.folder / "socket"
    master = crew.run(
        "-m", "gunicorn", "--preload", "--workers", "2", "--bind", f"unix:{socket}", "--worker-class",
        "uvicorn.workers.UvicornWorker", "--graceful-timeout", "5", "tests.crossproc.preload_app:app",
    )  # fmt: skip
    await crew.until(lambda: len(crew.events("started")) == 2)
    (imported,) = crew.events("imported")
    started = crew.events("started")
    pids = {event["pid"] for event in started}
    assert len(pids) == 2
    assert imported["pid"] not in pids
    assert len({event["manager"] for event in started}) == 2

    async def load() -> set[int]:
        served = set()
        async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(socket)), timeout=30) as client:
            for _ in range(8):
                answer = await client.get("http://preload/")
                assert answer.status_code == 200
                served.add(int(answer.text))
        return served

    served: set[int] = set()
    rounds = 0
    async with asyncio.timeout(60):
        while served != pids:  # the kernel may give all requests of a round to one of them
            served |= set().union(*await asyncio.gather(*(load() for _ in range(8))))
            assert served <= pids
            rounds += 1
    inside = None
    fences = []
    for event in crew.events():
        if event["event"] == "enter":
            assert inside is None, "both inside"
            inside = event["pid"]
            fences.append(event["fence"])
        elif event["event"] == "leave":
            assert inside == event["pid"]
            inside = None
    assert len(fences) == 64 * rounds
    assert fences == sorted(fences)
    master.terminate()
    await crew.until(lambda: master.poll() is not None)


async def test_a_fork_after_entering(crew: Crew) -> None:
    """Every use in the child raises a ConfigurationError that says what to do, and the parent is undisturbed.

    Kept by Binding.check and Binding.usable: the process id.
    """
    parent = crew.start("fork")
    await crew.done(parent)
    assert not crew.events("failed")
    refused = {event["use"]: str(event["text"]) for event in crew.events("refused")}
    harmless = {str(event["use"]) for event in crew.events("done")}
    assert set(refused) | harmless == {
        "enter", "tried", "info", "force_release", "release", "reenter", "renew", "aclose",
    }  # fmt: skip
    assert harmless <= {"aclose", "release"}  # they do nothing to what belongs to the parent
    for use, text in refused.items():
        assert "fork" in text
        assert "order:42" in text or use == "reenter"
    (child,) = crew.events("child")
    assert child["free"] is False
    (after,) = crew.events("parent")
    assert after["lost"] is False
    assert after["opened"] == 1  # the child has not touched the parent's connection
