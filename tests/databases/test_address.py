"""Addresses of databases: what is understood, and that no password is told."""

from __future__ import annotations

import traceback

import pytest

from aiolock import BackendError, ConfigurationError, LockManager
from aiolock.backends.mysql.address import address_of as of_mysql
from aiolock.backends.postgres.address import address_of as of_postgres


def name_of(url: str) -> str:
    """What the database is called in errors."""
    return of_postgres(url).name if url.startswith("postgresql") else of_mysql(url).name


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://u:p@h/db", "h/db"),
        ("postgresql+asyncpg://u:p@h:5433/db?ssl=disable", "h:5433/db"),
        ("postgresql://u:p@one:5432,two:5433/db?target_session_attrs=primary", "one:5432,two:5433/db"),
        ("postgresql://u:p@[::1]:5432,[::2]/db", "[::1]:5432,[::2]/db"),
        ("postgresql://u:p%40%2F@h/d%23b?user=me@home", "h/d#b"),
        ("postgresql:///db?host=/tmp&user=u&password=p", "/tmp/db"),
        ("mysql://u:p@h/db", "h/db"),
        ("mariadb://u:p@h/db", "h/db"),
        ("mysql+asyncmy://u:p@h:3307/db?charset=utf8mb4", "h:3307/db"),
        ("mysql://u:p@[::1]:3307/db", "[::1]:3307/db"),
        ("mysql://u:p%40%2F@h/d%23b", "h/d#b"),
        ("mysql://u@/db?unix_socket=/run/mysqld.sock", "/run/mysqld.sock/db"),
    ],
)
def test_what_it_is_called(url: str, name: str) -> None:
    """Several servers are one database, of which one is the primary: it moves between them."""
    assert name_of(url) == name


def test_what_it_says() -> None:
    found = of_mysql("mysql://m%65:p%40%2F@h:3307/d%62?ssl_ca=/ca.pem")
    assert found[:6] == ("h", 3307, "", "me", "p@/", "db")
    assert (found.secure, found.authorities) == (True, "/ca.pem")
    assert of_mysql("mysql://h/db?ssl=true").secure
    assert not of_mysql("mysql://h/db").secure


PASSWORDS = ("sec/ret", "12/secret", "sec#ret", "sec?ret", "12#secret", "12?secret", "sec[ret", "s/ec@ret")


@pytest.mark.parametrize(
    "url",
    [
        f"{scheme}{rest}"
        for scheme in ("postgresql", "mysql")
        for rest in (
            *(f"://u:{password}@127.0.0.1:1/db" for password in PASSWORDS),
            *(":u:secret@h/db", "://u:secret@h:99999/db", "://u:secret@h:x/db", "://u:secret@h:x,i:1/db"),
        )
    ],
)
def test_a_password_is_not_told(url: str) -> None:
    """Also if it was not percent-encoded, so that it looks like something else."""
    with pytest.raises(ConfigurationError, match="percent-encoded") as caught:
        name_of(url)
    told = "".join(traceback.format_exception(caught.value.with_traceback(None)))
    assert not [part for part in ("sec", "ret", "12") if part in told]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://h", "must name a database"),
        ("mysql://h", "must name a database"),
        ("mysql://u:secret@h,i/db", "one host"),
        ("mysql://h/db?sslmode=require", "has the parameter 'sslmode': known are ssl_ca"),
        ("mysql://h/db?ssl=yes", "ssl is true or false"),
    ],
)
def test_what_is_not_understood(url: str, told: str) -> None:
    """A parameter that is ignored may be one that asks for TLS."""
    with pytest.raises(ConfigurationError, match=told):
        LockManager(url)


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+asyncpg", "mysql", "mariadb"])
async def test_what_caused_it_is_told(scheme: str) -> None:
    """Kept by each `raise` of what meaning() says: `__cause__`."""
    url = f"{scheme}://u:secret@localhost:1/x"
    with pytest.raises(BackendError, match=r"localhost:1/x: .*cannot be reached") as caught:
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
