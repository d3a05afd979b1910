"""The only place that names queues."""

from __future__ import annotations

from urllib.parse import quote, unquote

SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in "/%#")
"""Characters that stay as they are: others separate, mean something to a store, or are refused by one."""


class Paths:
    """Names the queues of one namespace: `<namespace>/<kind>/<name>`, each part quoted, and readable if it can be.

    Args:
        namespace: the manager's.
    """

    __slots__ = ("root",)

    def __init__(self, namespace: str) -> None:
        self.root: str = _quoted(namespace)

    def of(self, kind: str, name: str) -> str:
        """Return the path of a name."""
        return f"{self.root}/{kind}/{_quoted(name)}"

    def mailbox(self, manager: str) -> str:
        """Return the path of what is sent to a manager; no name has it."""
        return f"{self.root}/#/{manager}"

    def read(self, path: str) -> tuple[str, str]:
        """Return the kind and the name that a path is about; two empty texts if it is not one of these."""
        root, _, rest = path.partition("/")
        kind, _, name = rest.partition("/")
        return (kind, unquote(name)) if root == self.root and name and "/" not in name else ("", "")


def _quoted(text: str) -> str:
    found = quote(text, SAFE)
    return found if found.strip(".") else found.replace(".", "%2E")  # stores may take dots for a folder
