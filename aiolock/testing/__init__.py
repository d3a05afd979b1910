"""For your own tests: locks without a server, a clock that you advance, and faults that you inject."""

TYPE_CHECKING = False
if TYPE_CHECKING:  # at run time when they are used: pytest imports this package for its plugin
    from .clock import VirtualClock as VirtualClock
    from .memory import MemoryBackend as MemoryBackend
else:

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        module = import_module(".clock" if name == "VirtualClock" else ".memory", __name__)
        found = globals()[name] = getattr(module, name)
        return found


del TYPE_CHECKING
__all__ = ["MemoryBackend", "VirtualClock"]
