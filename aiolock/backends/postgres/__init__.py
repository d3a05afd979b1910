"""Locks in a PostgreSQL database."""

from .address import SCHEMES
from .engine import PostgresEngine

__all__ = ["SCHEMES", "PostgresEngine"]
