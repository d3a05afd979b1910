"""What a MariaDB or MySQL server is asked before it keeps locks, and what its answers mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .examination import Finding, Level

VARIABLES = """SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'innodb_flush_log_at_trx_commit', 'log_bin',
  'rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled')"""
"""What it is asked. Who may not call our procedures is refused before."""


def examine_mysql(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Return what can be said of a server in whose database locks are kept.

    Args:
        variables: what it answers to `VARIABLES`.
    """
    version = variables.get("version", "")
    yield Finding("server", Level.OK, f"{'MariaDB' if 'MariaDB' in version else 'MySQL'} {version}")
    flush = variables.get("innodb_flush_log_at_trx_commit", "1")
    if flush == "1":
        yield Finding("crash", Level.OK, "what is granted survives a crash")
    else:
        text = f"innodb_flush_log_at_trx_commit is {flush}: a crash forgets the grants of the last second"
        yield Finding("crash", Level.PROBLEM, text, "set innodb_flush_log_at_trx_commit = 1")
    waits = {variables.get(f"rpl_semi_sync_{name}_enabled") for name in ("master", "source")}
    if variables.get("log_bin") == "ON" and "ON" not in waits:
        advice = "turn on semi-synchronous replication, or count on two holders for the rest of a ttl after a failover"
        yield Finding("failover", Level.ADVICE, "replicas follow later: a failover forgets the last grants", advice)
