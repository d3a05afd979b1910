"""Locks in a database of MariaDB or MySQL."""
