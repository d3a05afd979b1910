"""Where a file may be: all that use it must see one name and one memory next to it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ...errors import ConfigurationError
from ..transactional.engine import Unavailable

SHARED = frozenset(
    {
        *("9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "cvfs", "davfs", "gfs", "gfs2", "glusterfs", "gpfs"),
        *("kafs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs"),
        *("wekafs", "drvfs", "fakeowner", "grpcfuse", "osxfs", "prl_fs", "vboxsf", "virtiofs", "vmhgfs"),
    }
)
"""Filesystems whose locks do not exclude the processes of all hosts, or on which memory is not shared: on a network, or
a folder that a virtual machine has from outside. Others that the kernel itself offers are taken for local: refusing a
new one would help nobody.
"""
LOCAL = frozenset({"fuse.fuse-overlayfs"})
"""Filesystems that a process offers (FUSE), and that are on this host for sure. All others are refused: most are on a
network, each with rules of its own, and another folder for the locks is easily found. Disks (fuseblk) are no such.
"""
MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def refuse_place(path: Path) -> None:
    """Raise if locks in a file there would not exclude all that use it.

    Args:
        path: of the file, without symbolic links; it may be missing.

    Raises:
        Unavailable: it is on a network filesystem, or it is mounted alone.
    """
    mounted, kind = _mount(path)
    offered = kind.partition(".")[0] == "fuse" and kind not in LOCAL
    if offered or kind in SHARED:
        what = "may be on a network" if offered else "is on a network, or another machine uses it, too"
        text = f"{path}: its filesystem ({kind}) {what}, and locks there do not exclude other hosts"
        remedy = "choose a folder on a disk of this host, or a server for locks between hosts"
        raise Unavailable(ConfigurationError("", f"{text}: {remedy}"))
    if mounted == str(path):
        raise _names(path, "it is mounted alone", "mount its folder instead")


def refuse_links(path: Path, found: os.stat_result) -> None:
    """Raise if a file has hard links.

    Raises:
        Unavailable: it has.
    """
    if found.st_nlink > 1:
        raise _names(path, f"{found.st_nlink} hard links lead to it", "keep one of them; symbolic links may stay")


def _names(path: Path, why: str, remedy: str) -> Unavailable:
    """SQLite keeps its locks in memory that goes by the file's name."""
    text = f"{path} can be used by two names ({why}), and those do not exclude each other: {remedy}"
    return Unavailable(ConfigurationError("", text))


def _mount(path: Path) -> tuple[str, str]:
    """The mount that a path is on: its name, and the type of its filesystem; "" if the system does not say."""
    there = str(path)
    best, kind = "", ""
    try:
        lines = os.fsdecode(MOUNTS.read_bytes()).split("\n")  # names may be no UTF-8
    except OSError:
        return best, kind
    for words in (line.split(" ") for line in lines if line):
        mounted = _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 8)), words[4])
        inside = there == mounted or there.startswith(mounted.rstrip("/") + "/")
        if inside and len(mounted) >= len(best):
            best, kind = mounted, words[words.index("-") + 1]
    return best, kind
