"""Locks in a PostgreSQL database.

Raises:
    ConfigurationError: on import: asyncpg is not installed.
"""

from ...errors import ConfigurationError

try:
    import asyncpg as asyncpg
except ModuleNotFoundError as _missing:
    _TEXT = "locks in PostgreSQL need asyncpg: pip install 'aiolock-redis[postgres]'"
    raise ConfigurationError("", _TEXT) from _missing

from .engine import PostgresEngine as PostgresEngine
