"""Locks in a PostgreSQL database.

Raises:
    ConfigurationError: on import: asyncpg is not installed.
"""

from ...errors import ConfigurationError

try:
    import asyncpg as asyncpg
except ModuleNotFoundError as error:
    text = "locks in PostgreSQL need asyncpg: pip install 'aiolock-redis[postgres]'"
    raise ConfigurationError("", text) from error

from .engine import PostgresEngine as PostgresEngine
from .reader import DatabaseReader as DatabaseReader
