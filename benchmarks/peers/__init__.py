"""The libraries that you might pick instead, each with an adapter and, where necessary, an environment of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peer:
    """A library to measure.

    Attributes:
        name: its name in the report.
        adapter: `module:class` in this package.
        requirements: what to install for it besides redis-py for the baseline; empty if this environment has it.
        distributions: the distributions whose versions the report names.
        quick: measured in a quick run too.
    """

    name: str
    adapter: str
    requirements: tuple[str, ...]
    distributions: tuple[str, ...]
    quick: bool = False

    @property
    def ours(self) -> bool:
        """Whether it is aiolock itself."""
        return self.adapter.startswith("benchmarks.peers.aiolock:")

    @property
    def folder(self) -> str:
        """The name of its environment."""
        return "-".join(requirement.partition("[")[0] for requirement in self.requirements)


def _peer(name: str, adapter: str, *requirements: str, versions: tuple[str, ...] = (), quick: bool = False) -> Peer:
    distributions = versions or tuple(requirement.partition("[")[0] for requirement in requirements)
    return Peer(name, f"benchmarks.peers.{adapter}", requirements, distributions, quick)


PEERS = [
    _peer("aiolock", "aiolock:Lock", versions=("aiolock-redis", "redis", "hiredis"), quick=True),
    _peer("aiolock fair_lock", "aiolock:Fair", versions=("aiolock-redis", "redis", "hiredis")),
    _peer("aiolock renew=False", "aiolock:Fixed", versions=("aiolock-redis", "redis", "hiredis")),
    _peer("redis-py", "redis_py:Default", versions=("redis", "hiredis"), quick=True),
    _peer("redis-py sleep=0.01", "redis_py:Eager", versions=("redis", "hiredis")),
    _peer("valkey-py", "valkey_py:Lock", "valkey[libvalkey]", versions=("valkey", "libvalkey")),
    _peer("coredis", "coredis_lock:Lock", "coredis"),
    _peer("aioredlock", "aioredlock_lock:Lock", "aioredlock", versions=("aioredlock", "aioredis")),
    _peer("pottery", "pottery_lock:Lock", "pottery"),
    _peer("redis-lock-py", "redis_lock_py:Lock", "redis-lock-py"),
    _peer("grelmicro", "grelmicro_lock:Lock", "grelmicro"),
    _peer("steindamm", "steindamm_semaphore:Semaphore", "steindamm"),
    _peer("py-redis-semaphore", "py_redis_semaphore:Mutex", "py-redis-semaphore"),
    _peer("python-redis-lock", "python_redis_lock:Lock", "python-redis-lock"),
]
