"""A temporary folder that is not left behind, even if this process is killed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

# Its standard input ends with this process, in whatever way that ends.
_KEEPER = 'read -r how || { cd /; rm -rf "$0"; }'


class Folder:
    """Removed at the end of the `with` block, or when this process ends.

    Attributes:
        path: where it is.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="aiolock-"))
        self._keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, str(self.path)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait()
