"""One server, and locks on Redisson's wire."""

from __future__ import annotations

import time

from ..uses import ON_REDISSON
from .server import OneServer

LASTING = ("redisson_lock_queue:", "redisson_lock_timeout:", f"{{{ON_REDISSON}}}:timeout")
"""What a process leaves that died while it waited or had permits: the next one that comes forgets it."""


class OnRedisson(OneServer):
    """What workers use, a Java service could share: it has no fences, and a race for most of it."""

    name = "redisson"
    uses = ("rlock", "rfair", "rread", "rwrite", "rpermits")

    def held(self) -> list[str]:
        link = self._kept.link
        hashes = [name for name in ("w", "wf", "wrw") if link.exists(name)]
        return super().held() + hashes + ["a permit"] * link.zcount(LASTING[-1], time.time() * 1000, "+inf")

    def unlimited(self) -> list[str]:
        """The number of permits is there for good."""
        return [key for key in super().unlimited() if key != ON_REDISSON and not key.startswith(LASTING)]
