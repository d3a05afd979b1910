"""Locks on a master that Sentinels watch, and replace if it fails."""

from .backend import SentinelBackend as SentinelBackend
