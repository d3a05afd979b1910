"""Threads that are none: gevent and eventlet put greenlets in their place."""

from __future__ import annotations

import sys

from ..errors import ConfigurationError

PATCHERS = {
    "gevent.monkey": ("is_module_patched", ("threading", "socket")),
    "eventlet.patcher": ("is_monkey_patched", ("thread", "socket")),
}
"""What tells whether it has replaced a module, by which names."""


def check_threads() -> None:
    """Raise if threads or sockets are greenlets': an event loop in one of them would stop all the others.

    Raises:
        ConfigurationError: they are.
    """
    for patcher, (function, names) in PATCHERS.items():
        module = sys.modules.get(patcher)
        replaced = [name for name in names if module is not None and getattr(module, function)(name)]
        if replaced:
            library = patcher.partition(".")[0]
            raise ConfigurationError(
                "",
                f"{library} has monkey-patched {' and '.join(replaced)}, but aiolock.sync needs a real thread for its "
                "event loop: use threads or processes (Celery: --pool=threads or prefork; gunicorn: --worker-class "
                "gthread), or leave out the monkey-patching in this process",
            )
