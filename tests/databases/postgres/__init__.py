"""Locks in PostgreSQL, beyond the contract."""
