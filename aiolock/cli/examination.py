"""What INFO says of a server, and what that means for locks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .finding import Finding, Level

OLDEST = 6
_FORKS = {"valkey_version": "Valkey", "redict_version": "Redict", "redis_version": "Redis"}


def fields_of(info: object) -> dict[str, str]:
    """The fields of an INFO."""
    text = info.decode(errors="replace") if isinstance(info, bytes) else ""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, colon, value in pairs if colon}


def examine(info: Mapping[str, str], asked_as: str) -> Iterator[Finding]:
    """Return what it says.

    Args:
        info: its fields; none if it is denied.
        asked_as: "standalone", "cluster" or "sentinel".
    """
    if not info:
        yield Finding("server", Level.ADVICE, "unknown: INFO is denied", "allow +info")
        return
    yield _version(info)
    yield _mode(info, asked_as)
    yield _memory(info)
    yield _persistence(info)
    yield _replicas(info)


def _version(info: Mapping[str, str]) -> Finding:
    product, version = next(((_FORKS[name], info[name]) for name in _FORKS if name in info), ("unknown", "0"))
    major = info.get("redis_version", version).partition(".")[0]
    if major.isdecimal() and int(major) < OLDEST:
        return Finding("server", Level.PROBLEM, f"{product} {version} is too old", f"Redis {OLDEST} or newer is needed")
    return Finding("server", Level.OK, f"{product} {version}, up for {_days(info.get('uptime_in_seconds', '0'))}")


def _mode(info: Mapping[str, str], asked_as: str) -> Finding:
    mode = next((info[name] for name in ("redis_mode", "server_mode", "redict_mode") if name in info), "standalone")
    role = info.get("role", "master")
    if mode == "sentinel":
        return Finding(
            "topology", Level.PROBLEM, "this is a Sentinel, which keeps no locks", "add --sentinel, --service"
        )
    if mode == "cluster" and asked_as != "cluster":
        advice = "add --cluster; in code, LockManager.cluster([url, …])"
        return Finding("topology", Level.PROBLEM, "this is a node of a cluster", advice)
    if role != "master":
        return Finding("topology", Level.PROBLEM, "this is a replica", "connect to the master")
    return Finding("topology", Level.OK, f"a master, {mode if asked_as != 'sentinel' else 'named by Sentinels'}")


def _memory(info: Mapping[str, str]) -> Finding:
    policy, most = info.get("maxmemory_policy", "noeviction"), int(info.get("maxmemory", "0") or 0)
    evicted = info.get("evicted_keys", "0")
    if most and policy != "noeviction":
        return Finding(
            "eviction", Level.PROBLEM,
            f"maxmemory-policy {policy}: locks vanish when memory is full ({evicted} keys so far)",
            "maxmemory-policy noeviction, or a server of their own for locks",
        )  # fmt: skip
    if policy != "noeviction":
        return Finding("eviction", Level.OK, f"maxmemory-policy {policy}, but without a limit nothing is evicted")
    full = int(info.get("used_memory", "0") or 0)
    if most and full > 0.9 * most:
        return Finding(
            "eviction", Level.ADVICE, f"noeviction, but memory is {100 * full // most} % full",
            "a full server refuses new locks: raise maxmemory",
        )  # fmt: skip
    return Finding("eviction", Level.OK, "noeviction" + ("" if most else ", no memory limit"))


def _persistence(info: Mapping[str, str]) -> Finding:
    if info.get("aof_enabled") == "1":
        return Finding("persistence", Level.OK, "append-only file; only appendfsync always forgets nothing in a crash")
    advice = "holders are told and cancelled, but another may be faster: use fences, or an append-only file"
    return Finding("persistence", Level.ADVICE, "no append-only file: a restart forgets locks", advice)


def _replicas(info: Mapping[str, str]) -> Finding:
    number = info.get("connected_slaves", "0")
    if number == "0":
        return Finding("replicas", Level.OK, "none: no failover can lose a lock, and none helps in an outage")
    lost = "a failover can lose a grant that they do not have yet"
    return Finding("replicas", Level.ADVICE, f"{number} connected: {lost}", "min_replicas=1 or more, or fences")


def _days(seconds: str) -> str:
    whole = int(seconds or 0)
    return f"{whole // 86400} days" if whole >= 2 * 86400 else f"{whole // 3600} h" if whole >= 7200 else f"{whole} s"
