"""Fetches the servers that tests meet, before the first of them, which would have no time: `make test` does that."""

from __future__ import annotations

import pytest

from . import etcd, mysql, zookeeper


def main() -> None:
    """Fetch what is missing; say what is not to be had."""
    for fetch in (
        lambda: mysql.binary(mysql.MARIADB),
        lambda: mysql.binary(mysql.MYSQL),
        etcd.binary,
        zookeeper.class_path,
    ):
        try:
            fetch()
        except pytest.skip.Exception as why:
            print(f"some tests will be skipped: {why}", flush=True)


if __name__ == "__main__":
    main()
