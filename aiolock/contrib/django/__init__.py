"""Locks in Django."""
