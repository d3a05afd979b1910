"""Addresses of databases: what is understood, and that no password is told."""

from __future__ import annotations

import traceback

import pytest

from aiolock import BackendError, ConfigurationError, LockManager
from aiolock.backends.postgres.address import address_of


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://u:p@h/db", "h/db"),
        ("postgresql+asyncpg://u:p@h:5433/db?ssl=disable", "h:5433/db"),
        ("postgresql://u:p@one:5432,two:5433/db?target_session_attrs=primary", "one:5432,two:5433/db"),
        ("postgresql://u:p@[::1]:5432,[::2]/db", "[::1]:5432,[::2]/db"),
        ("postgresql://u:p%40%2F@h/d%23b?user=me@home", "h/d#b"),
        ("postgresql:///db?host=/tmp&user=u&password=p", "/tmp/db"),
    ],
)
def test_what_it_is_called(url: str, name: str) -> None:
    """Several servers are one database, of which one is the primary: it moves between them."""
    assert address_of(url).name == name


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{password}@127.0.0.1:1/db"
        for password in ("sec/ret", "12/secret", "sec#ret", "sec?ret", "12#secret", "12?secret", "sec[ret", "s/ec@ret")
    ]
    + ["postgresql:u:secret@h/db", "postgresql://u:secret@h:99999/db", "postgresql://u:secret@h:x,i:1/db"],
)
def test_a_password_is_not_told(url: str) -> None:
    """Also if it was not percent-encoded, so that it looks like something else."""
    with pytest.raises(ConfigurationError, match="percent-encoded") as caught:
        address_of(url)
    told = "".join(traceback.format_exception(caught.value.with_traceback(None)))
    assert not [part for part in ("sec", "ret", "12") if part in told]


async def test_what_caused_it_is_told() -> None:
    """Kept by each `raise` of what meaning() says: `__cause__`."""
    url = "postgresql://u:secret@localhost:1/x"
    with pytest.raises(BackendError) as caught:
        async with LockManager(url):
            pass
    seen: list[BaseException] = []
    cause: BaseException | None = caught.value
    while cause is not None:
        assert cause not in seen
        seen.append(cause)
        cause = cause.__cause__
    assert isinstance(seen[-1], OSError)
    told = "".join(traceback.format_exception(caught.value)).replace(f'"{url}"', "this line")
    assert "secret" not in told
