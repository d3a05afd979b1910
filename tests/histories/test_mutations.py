"""Each mutation still finds what it breaks. That histories find the mutation takes a round each:
`python -m tests.histories.broken`.
"""

from __future__ import annotations

import pytest

from .mutations import CASES
from .places import PLACES


@pytest.mark.parametrize("name", CASES)
def test_a_mutation_fits_the_library(name: str) -> None:
    case = CASES[name]
    assert case.place in PLACES
    with pytest.MonkeyPatch.context() as patch:
        case.mutation(patch)
        assert patch._setattr
