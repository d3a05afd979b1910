"""Stores with transactions as backends: the scripts run on what a transaction has loaded."""

from .backend import TransactionalBackend

__all__ = ["TransactionalBackend"]
