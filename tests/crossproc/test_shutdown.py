"""However a process ends, if its event loop gets another turn, what it held is free at once.

`python -m tests.crossproc.endings URL 40` ends 40 processes in each way.
"""

from __future__ import annotations

import pytest

from .endings import ENDINGS, end


@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_is_left(ending: str, redis_url: str) -> None:
    """Kept by RespProtocol, which needs no task, by Worker, Lifecycle._drain and Lifecycle._close_with_loop."""
    outcome = end(ENDINGS[ending], redis_url)
    assert outcome.left == [], outcome.said
