"""For your own tests: locks without a server, a clock that you advance, and faults that you inject."""

from .clock import VirtualClock as VirtualClock
from .memory import MemoryBackend as MemoryBackend

__all__ = ["MemoryBackend", "VirtualClock"]
