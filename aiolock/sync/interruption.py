"""Signals whose handlers raise, such as Ctrl-C: they strike between any two steps of a thread."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import AiolockError


def insist(step: Callable[[], object]) -> None:
    """Carry out a step that does nothing the second time, though one signal interrupts it and a second one its repeat.

    What the signal's handler raised is raised afterwards.
    """
    try:
        step()
    except AiolockError:
        raise
    except BaseException:
        # No loop: the handler of a signal would raise at its jump back.
        try:
            step()
        except BaseException:
            step()
            raise
        raise
