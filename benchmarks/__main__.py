"""`python -m benchmarks`: measures, and writes the results, the report and the plots."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .environment import loops
from .peers import PEERS
from .report import write_report
from .rows import ROWS
from .run import RESULTS, Plan, Run, say, write


def main(words: list[str]) -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, only the closest libraries: two minutes")
    parser.add_argument("--loop", choices=loops(), default="asyncio", help="the event loop for all rows and libraries")
    parser.add_argument(
        "--rows", default=None, metavar="A,B,…", help=f"only these, or 'none': {', '.join(row.key for row in ROWS)}"
    )
    parser.add_argument("--peers", default=None, metavar="NAME,…", help="only these, or 'none'")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="the folder for the results")
    asked = parser.parse_args(words)
    rows = [row for row in ROWS if not row.seldom and (row.quick or not asked.quick)]
    if asked.rows is not None:
        rows = [row for row in ROWS if row.key in asked.rows.split(",")]
    peers = [peer for peer in PEERS if peer.quick or not asked.quick]
    if asked.peers is not None:
        peers = [peer for peer in PEERS if peer.name in asked.peers.split(",")]
    try:
        results = Run(Plan(asked.quick, asked.loop, rows, peers)).measure()
    except KeyboardInterrupt:
        say("interrupted: nothing was written, and nothing is left running")
        return 130
    path = write(results, asked.folder)
    report = write_report(json.loads(path.read_text(encoding="utf-8")), path)
    print(report.read_text(encoding="utf-8"))
    say(f"wrote {path} and {report}")
    missed = [figure for figure in results["figures"] if figure.get("verdict") == "missed"]
    say(f"{len(missed)} figures missed their target" if missed else "every figure reached its target")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
