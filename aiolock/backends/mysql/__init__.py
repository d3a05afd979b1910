"""Locks in a MariaDB or MySQL database.

Raises:
    ConfigurationError: on import: asyncmy is not installed.
"""

from ...errors import ConfigurationError

try:
    import asyncmy as asyncmy
except ModuleNotFoundError as _missing:
    _TEXT = "locks in MariaDB or MySQL need asyncmy: pip install 'aiolock-redis[mysql]'"
    raise ConfigurationError("", _TEXT) from _missing

from .engine import MySQLEngine as MySQLEngine
