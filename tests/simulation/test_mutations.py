"""The simulation finds a library that is broken on purpose: otherwise its silence would prove nothing."""

from __future__ import annotations

import pytest

from .drawing import draw
from .mutations import MUTATIONS, ON_REDISSON, Mutation
from .run import run

pytestmark = pytest.mark.slow

SEEDS = 300
"""How many plans it may take to find one."""


@pytest.mark.parametrize("mutation", [*MUTATIONS, *ON_REDISSON], ids=lambda mutation: mutation.__name__)
def test_a_broken_library_is_found(mutation: Mutation) -> None:
    first, wire = (ON_REDISSON[mutation], "redisson:") if mutation in ON_REDISSON else (MUTATIONS[mutation], "")
    with pytest.MonkeyPatch.context() as patch:
        mutation(patch)
        assert any(run(draw(f"{wire}{seed}")).violation is not None for seed in range(first, first + SEEDS))
