"""What a MariaDB or MySQL server is asked before it keeps locks, and what its answers mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .examination import Finding, Level

VARIABLES = """SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'innodb_flush_log_at_trx_commit', 'log_bin',
  'rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled')"""
"""What it is asked. Who may not call our procedures is refused before."""
OWNER = """SELECT r.definer, r.definer = CURRENT_USER() OR EXISTS(SELECT 1 FROM information_schema.USER_PRIVILEGES p
    WHERE p.privilege_type IN ('CONNECTION ADMIN', 'CONNECTION_ADMIN', 'SUPER')
      AND REPLACE(p.grantee, '''', '') = r.definer)
  FROM information_schema.ROUTINES r WHERE r.routine_schema = DATABASE() AND r.routine_name = 'aiolock_exchange_1'"""
"""Whose the procedures are, and whether we know that they may wake those who listen."""


def examine_mysql(variables: Mapping[str, str], owner: str, wakes: bool) -> Iterator[Finding]:
    """Return what can be said of a server in whose database locks are kept.

    Args:
        variables: what it answers to `VARIABLES`.
        owner, wakes: and to `OWNER`.
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
    if not wakes:
        text = f"who listens is woken at once only if {owner}, who owns the procedures, has CONNECTION ADMIN"
        yield Finding("rights", Level.ADVICE, text, "grant it, in MySQL CONNECTION_ADMIN; or see that it was granted")
