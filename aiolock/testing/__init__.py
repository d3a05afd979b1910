"""For users' own tests: locks without a server, time that passes when told, and what goes wrong on demand."""

from .clock import VirtualClock as VirtualClock
from .memory import MemoryBackend as MemoryBackend

__all__ = ["MemoryBackend", "VirtualClock"]
