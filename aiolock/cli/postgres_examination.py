"""What a PostgreSQL database is asked before it keeps locks, and what its answers mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .examination import Finding, Level

SETTINGS = """SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync'),
  current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication),
  has_function_privilege('aiolock.sweep_1()', 'EXECUTE'), pg_is_in_recovery(),
  current_setting('full_page_writes'), current_setting('max_connections')::int - (SELECT count(*) FROM pg_stat_activity
    WHERE backend_type = 'client backend'),
  (SELECT CASE WHEN n_tup_upd > 1000 THEN n_tup_hot_upd::float / n_tup_upd END FROM pg_stat_user_tables
    WHERE relid = 'aiolock.rows'::regclass),
  (SELECT max(age(backend_xmin)) FROM pg_stat_activity WHERE state <> 'active' AND datname = current_database()),
  current_setting('transaction_isolation'), current_setting('max_locks_per_transaction')::int *
    (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int),
  (SELECT count(*) FROM pg_locks WHERE NOT fastpath)"""
"""What it is asked."""
FEW = 20
"""Connections that are left, each manager takes two."""
ROOM = 1000
"""Locks of PostgreSQL that all sessions can take: one request of a manager takes up to 640."""
IN_PLACE = 0.9
"""How much of all updates leave the index alone, at least."""
MANY = 1_000_000
"""Transactions whose dead rows stay because of one that is open."""


def examine_postgres(row: Sequence[object]) -> Iterator[Finding]:
    """Return what can be said of a PostgreSQL database in which locks are kept.

    Args:
        row: what it answers to `SETTINGS`.
    """
    version, commit, fsync, standbys, replicas, granted, standby, pages, left, in_place, old, isolation, *room = row
    yield Finding("server", Level.OK, f"PostgreSQL {version}")
    if standby:
        yield Finding("topology", Level.PROBLEM, "this is a standby, which takes no writes", "connect to the primary")
    if isolation != "read committed":  # of a pooler: a session of ours has it
        text, advice = (
            f"transactions are {isolation}: no lock is granted",
            "ALTER DATABASE … SET {0} = 'read committed'",
        )
        yield Finding("isolation", Level.PROBLEM, text, advice.format("default_transaction_isolation"))
    off = [
        name
        for name, value in (("fsync", fsync), ("full_page_writes", pages), ("synchronous_commit", commit))
        if value == "off"
    ]
    if off:
        setting = off[0]
        yield Finding(
            "crash", Level.PROBLEM, f"{setting} is off: a crash forgets the last grants", f"set {setting} = on"
        )
    else:
        yield Finding("crash", Level.OK, "what is granted survives a crash")
    if replicas and (not standbys or commit == "local"):
        advice = "set synchronous_standby_names, or count on two holders for the rest of a ttl after a failover"
        yield Finding("failover", Level.ADVICE, "replicas follow later: a failover forgets the last grants", advice)
    if not granted:
        advice = "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA aiolock"
        yield Finding("rights", Level.PROBLEM, "you may not call the functions of the schema aiolock", advice)
    if isinstance(left, int) and left < FEW:
        advice = "raise max_connections: each manager takes two"
        yield Finding("sessions", Level.ADVICE, f"{max(0, left)} connections are left", advice)
    most, taken = room
    if isinstance(most, int) and isinstance(taken, int):
        text = f"{taken} of some {most} entries of the lock table are taken, which all databases of the server share"
        scarce = most - taken < ROOM
        advice = "raise max_locks_per_transaction: else managers ask for fewer names at once, and others fail"
        yield Finding("room", Level.ADVICE if scarce else Level.OK, text, advice if scarce else "")
    if isinstance(in_place, float) and in_place < IN_PLACE:
        advice = "fillfactor is 50, and the key has the only index: see `\\d+ aiolock.rows` in psql"
        text = f"{in_place:.0%} of updates are HOT, so the table of locks grows: did you add an index or a setting?"
        yield Finding("table", Level.ADVICE, text, advice)
    if isinstance(old, int) and old > MANY:
        text = "a transaction is open for so long that VACUUM removes nothing, and locks become slower"
        yield Finding(
            "table",
            Level.ADVICE,
            text,
            "end it: see backend_xmin in pg_stat_activity; or give locks a database of their own",
        )
