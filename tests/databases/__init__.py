"""Locks in a database, beyond the contract: what holds in each, and in folders of their own what only one has."""
