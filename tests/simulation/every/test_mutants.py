"""A library that is broken in one moment only is found in the scene that has the moment."""

from __future__ import annotations

import pytest

from ..mutations import Mutation
from .faults import with_one_more
from .judge import judge
from .mutants import MUTANTS
from .scenes import SCENES


@pytest.mark.parametrize("mutation", MUTANTS, ids=lambda mutation: mutation.__name__)
def test_a_broken_library_is_found(mutation: Mutation) -> None:
    name, fault = MUTANTS[mutation]
    plan = SCENES[name]
    with pytest.MonkeyPatch.context() as patch:
        mutation(patch)
        verdict = judge(plan)
        assert verdict.why or any(judge(one).why for one in with_one_more(plan, [fault], verdict.steps))
