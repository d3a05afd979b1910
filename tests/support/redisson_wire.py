"""Every script of Redisson's wire."""

from __future__ import annotations

from aiolock.scripts.redisson import __file__ as __file__
from aiolock.scripts.redisson import latch, permits, rw

SCRIPTS = (*rw.SCRIPTS, *permits.SCRIPTS, *latch.SCRIPTS)
