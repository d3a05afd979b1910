"""A record is what a frozen dataclass is."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest

from aiolock.record import Record


class Place(Record):
    """A base."""

    name: str


class Seat(Place):
    """A record with a default, and a field that is not shown."""

    row: int
    owner: str = field(repr=False)
    price: float = 1.5

    @property
    def label(self) -> str:
        return f"{self.name}{self.row}"


@dataclass(frozen=True)
class _Place:
    name: str


@dataclass(frozen=True)
class Twin(_Place):
    row: int
    owner: str = field(repr=False)
    price: float = 1.5


BOTH: list[Any] = [Seat, Twin]


@pytest.mark.parametrize("kind", BOTH)
def test_a_value(kind: Any) -> None:
    """Kept by each method of Record; the twin says what is right."""
    seat = kind("a", 1, "me")
    assert repr(seat) == f"{kind.__name__}(name='a', row=1, price=1.5)"
    assert seat == kind("a", 1, owner="me") == kind(name="a", row=1, owner="me", price=1.5) == kind("a", 1, "me", 1.5)
    assert hash(seat) == hash(kind("a", 1, "me"))
    assert seat != kind("a", 2, "me")
    assert seat != kind("a", 1, "me", 2.0)
    assert seat != ("a", 1, "me", 1.5)
    assert seat == pickle.loads(pickle.dumps(seat)) == copy.copy(seat) == copy.deepcopy(seat)
    assert dataclasses.is_dataclass(kind)
    assert [one.name for one in dataclasses.fields(seat)] == ["name", "row", "owner", "price"]
    assert dataclasses.asdict(seat) == {"name": "a", "row": 1, "owner": "me", "price": 1.5}
    assert dataclasses.replace(seat, row=3) == kind("a", 3, "me")
    match seat:
        case Seat("a", 1, "me", price=1.5) | Twin("a", 1, "me", price=1.5):
            pass
        case _:
            pytest.fail("it does not match")


@pytest.mark.parametrize("kind", BOTH)
def test_it_never_changes(kind: Any) -> None:
    """Kept by Record.__setattr__ and __delattr__."""
    seat = kind("a", 1, "me")
    for change in (
        lambda: setattr(seat, "row", 2),
        lambda: setattr(seat, "other", 2),
        lambda: delattr(seat, "row"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert seat == kind("a", 1, "me")


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("values", "named"),
    [
        (("a",), {}),
        (("a", 1), {"price": 2.0}),
        (("a", 1, "me", 2.0, "more"), {}),
        (("a", 1, "me"), {"row": 1}),
        (("a", 1, "me"), {"colour": "red"}),
        ((), {}),
    ],
)
def test_what_it_is_made_of(kind: Any, values: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Kept by Record.__init__."""
    with pytest.raises(TypeError):
        kind(*values, **named)


def test_a_default_is_no_other_records() -> None:
    """Two kinds with the same values differ, and what a subclass inherits comes first."""

    class Other(Place):
        row: int
        owner: str
        price: float = 1.5

    assert Other("a", 1, "me") != Seat("a", 1, "me")
    assert Seat("a", 1, "me").label == "a1"
