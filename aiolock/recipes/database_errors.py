"""What the errors of databases mean, whatever library raises them."""

from __future__ import annotations

NO_TRANSACTION = "25P01"
NO_SAVEPOINT = ("3B001", "1305")
NO_TABLE = ("42P01", "42703", "1146", "1054")
"""Or no such column in it."""
NO_RIGHT = ("42501", "1142")
IDLE_ENDED = "25P03"
CHANGED = "1020"
"""Of MariaDB, with innodb_snapshot_isolation: another has written what the transaction would write."""
CONFLICTS = ("40001", CHANGED)
"""Another has committed meanwhile: it can be done again."""
OF_MYSQL = ("asyncmy", "aiomysql", "pymysql", "MySQLdb")
"""Whose errors begin with the server's number."""
LIBRARIES = frozenset(
    {"asyncpg", "psycopg", "psycopg2", "pg8000", "sqlite3", "aiosqlite", "sqlalchemy", "django", *OF_MYSQL}
)
REFUSED_BY_MYSQL = (CHANGED, "1213", "1205", "1062")


def code_of(error: BaseException | None) -> str:
    """What the database calls an error: the SQLSTATE, MySQL's number, SQLite's name; "" if the driver says nothing."""
    while error is not None:
        said = error.args[0] if error.args else None
        if isinstance(said, int) and type(error).__module__.partition(".")[0] in OF_MYSQL:
            return str(said)
        if isinstance(said, dict):  # pg8000's: the fields of the message
            return str(said.get("C", ""))
        for attribute in ("sqlstate", "pgcode", "sqlite_errorname"):
            found = getattr(error, attribute, None)
            if found:
                return str(found)
        error = error.__cause__
    return ""


def no_savepoint(error: Exception) -> bool:
    """Whether there is no such savepoint, or no transaction that could have one."""
    return code_of(error) in (NO_TRANSACTION, *NO_SAVEPOINT) or "no such savepoint" in str(error)


def leaves_open(error: Exception) -> bool:
    """Whether a COMMIT that ended with this error may have been done: nothing was answered, or by who was ending."""
    code = code_of(error)
    if code.isdecimal() and len(code) < 5:  # MySQL's
        return code not in REFUSED_BY_MYSQL
    if code:
        return code[:2] in ("08", "57") or code == "40003"
    kinds = {cls.__module__.partition(".")[0] for cls in type(error).__mro__}
    return isinstance(error, OSError | EOFError | TimeoutError) or bool(kinds & LIBRARIES)
