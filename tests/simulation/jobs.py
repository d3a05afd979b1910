"""What must be true of calls that others join, and of jobs that are reserved from enqueue to end."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .model import SLACK, Model


@dataclass(eq=False)
class Run:
    """A run of a function whose calls join.

    Attributes:
        fails: it raises.
        over: when its call was; None as long as it is not.
    """

    fails: bool
    over: float | None = None


@dataclass(eq=False)
class Job:
    """A reservation.

    Attributes:
        ticket: what stands for it.
        began: when it was asked for.
        granted: when that was answered.
        until: at least until then it is in force.
        latest: at most until then.
        attempts: how often its job began.
        ended: its job has ended, or it was given back.
    """

    ticket: str
    began: float
    granted: float
    until: float
    latest: float
    attempts: int = 0
    ended: bool = False

    def leaves(self, now: float, until: float, within: float) -> None:
        """An attempt is over: the name is its own at least until then, and at most for so long from now on."""
        self.until, self.latest = until, now + within


class Jobs:
    """Checks both.

    Args:
        model: the time, and what goes wrong.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._runs: dict[str, Run] = {}
        self._jobs: dict[str, list[Job]] = {}
        self._asking: dict[str, int] = {}
        self._waiting: dict[str, list[Job]] = {}

    # Calls that others join.

    def runs(self, fails: bool) -> tuple[str, Run]:
        """A function begins to run; return what it shall return, or raise."""
        token, run = f"run-{len(self._runs)}", Run(fails)
        self._runs[token] = run
        return token, run

    def joined(self, who: str, token: str, failed: bool, asked: float) -> None:
        """A call that began at `asked` has this result, or error: it is that of a run that was not over then."""
        model, world, plan = self._model, self._model.world, self._model.plan
        run = self._runs.get(token)
        if run is None or run.fails != failed:
            world.fail(f"{who} got {token!r} {'raised' if failed else 'returned'}, which is of no such run")
        elif run.over is not None:
            late = 0.0 if not model.troubled() else plan.longest + plan.liveness + plan.request_timeout
            if asked > run.over + late + SLACK:
                world.fail(f"{who} joined {token} at {asked:.3f}, which was over at {run.over:.3f}")

    # Jobs from enqueue to end.

    def asks(self, name: str) -> None:
        """Somebody tries to reserve it."""
        self._asking[name] = self._asking.get(name, 0) + 1

    def answered(self, name: str) -> None:
        """They have an answer, or an error."""
        self._asking[name] -= 1

    def reserved(self, name: str, ticket: str | None, began: float, within: float) -> None:
        """A job is reserved, or refused if `ticket` is None: one at a time, and it is free after its expiry."""
        model, now = self._model, self._model.world.now
        jobs = self._jobs.setdefault(name, [])
        if ticket is None:
            free = all(job.latest + SLACK < began for job in jobs)
            if free and model.plan.calm and self._asking[name] == 1:
                model.world.fail(f"{name!r} was refused, and nobody has it reserved")
            return
        for job in jobs:
            if not job.ended and job.until > now + SLACK and not model.broken(job.began):
                model.world.fail(f"{name!r} was reserved at {now:.3f}, and is until {job.until:.3f} for another job")
        job = Job(ticket, began, now, began + within, now + within)
        jobs.append(job)
        self._waiting.setdefault(name, []).append(job)

    def next(self, name: str) -> Job | None:
        """Take a job that waits for a worker."""
        waiting = self._waiting.get(name)
        return waiting.pop(0) if waiting else None

    def again(self, name: str, job: Job) -> None:
        """It was not done: another worker takes it."""
        self._waiting[name].append(job)

    def begins(self, name: str, job: Job) -> None:
        """Its job begins, under a lease: nobody else has reserved it, or has the job that they did."""
        model, now = self._model, self._model.world.now
        job.attempts += 1
        for other in self._jobs[name]:
            if other is not job and not other.ended and other.until > now + SLACK and not model.broken(other.began):
                model.world.fail(
                    f"a job of {name!r} runs at {now:.3f}, and another is reserved until {other.until:.3f}"
                )
        job.until = job.latest = math.inf
        if not model.plan.calm:  # it may lose its lease at any moment, and be told later
            job.until = now

    def ends(self, name: str, job: Job, again: bool, within: float) -> None:
        """Its attempt is over: it is tried again within so many seconds, or leaves the name free."""
        model, now = self._model, self._model.world.now
        job.leaves(now, now + within if again and model.plan.calm else now, within)

    def refused(self, name: str, job: Job) -> None:
        """Its job was not run, as it has ended."""
        model, now = self._model, self._model.world.now
        if not job.ended and job.until > now + SLACK and not model.broken(job.began):
            model.world.fail(f"a job of {name!r} was not run at {now:.3f}, and is reserved until {job.until:.3f}")
