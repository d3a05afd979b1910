"""The servers of a quorum, and how many of them decide."""

from __future__ import annotations

from collections.abc import Sequence

from ...clock import Clock
from ...errors import ConfigurationError
from .node import Node

LEAST_TIMEOUT = 0.25
"""Seconds that a node gets at least to answer an acquire: with less, a busy event loop alone would make it late."""
LEAST_SPREAD = 0.01
"""Seconds over which processes that the same release woke spread their attempts, at least."""
MOST_SPREAD = 0.25


class Members:
    """The nodes, and what the requests of one backend share.

    Args:
        nodes: the servers, in the user's order.
        clock: the clock of all nodes.
        patience: seconds that any answer may take.

    Attributes:
        quorum: how many nodes are a majority.
        asking: owners whose acquire is undecided, and not undone.
        granted: owners that a majority granted, until they end: only their ends are worth a message.
        pace: seconds that a majority recently took to answer.
    """

    def __init__(self, nodes: Sequence[Node], clock: Clock, patience: float) -> None:
        self.nodes: Sequence[Node] = nodes
        self.clock: Clock = clock
        self.patience: float = patience
        self.quorum: int = len(nodes) // 2 + 1
        self.asking: set[str] = set()
        self.granted: set[str] = set()
        self.pace: float = 0.0

    def timeout(self, ttl: float) -> float:
        """Seconds that a node gets for each of an acquire's two answers: a twentieth of the ttl."""
        return min(max(ttl / 20, LEAST_TIMEOUT), self.patience)

    def spread(self) -> float:
        """Return the seconds over which rivals spread their attempts: several times as long as an attempt, or all votes
        would split.
        """
        return min(max(LEAST_SPREAD, 4 * self.pace), MOST_SPREAD)

    def twin(self, node: Node) -> ConfigurationError | None:
        """Return the error if another connected node is the same server under another name."""
        for other in self.nodes:
            if other is not node and other.ready and other.run_id and other.run_id == node.run_id:
                names = " and ".join(one.label for one in self.nodes if one in (node, other))
                return ConfigurationError(
                    "", f"{names} are one server (run_id {node.run_id}): name each server only once, "
                    "or one failure costs several votes"
                )  # fmt: skip
        return None

    def hopeless(self, against: int) -> bool:
        """Whether so many are against it, or silent, that the rest is no majority."""
        return len(self.nodes) - against < self.quorum
