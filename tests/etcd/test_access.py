"""Users, their rights and their tokens; and TLS."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from aiolock import BackendError, LockLost, LockManager, LossReason
from tests.support.etcd import Etcd, text64


@pytest.fixture
def guarded() -> Iterator[Etcd]:
    """A server that knows a user `app`, who may use the prefix `aiolock/`; its tokens last for a second."""
    with Etcd(1, "--auth-token-ttl", "1") as server:
        for name in ("root", "app"):
            server.ask("auth/user/add", {"name": name, "password": "s/e:c"})
            server.ask("auth/role/add", {"name": name})
            server.ask("auth/user/grant", {"user": name, "role": name})
        permission = {"permType": "READWRITE", "key": text64("aiolock/"), "range_end": text64("aiolock0")}
        server.ask("auth/role/grant", {"name": "app", "perm": permission})
        server.ask("auth/enable")
        yield server


def url_of(server: Etcd, names: str) -> str:
    return server.url.replace("etcd://", f"etcd://{names}@")


async def test_a_user(guarded: Etcd) -> None:
    """With no right but to the prefix of the locks, and a token that is too old after a pause."""
    async with LockManager(url_of(guarded, "app:s%2Fe%3Ac"), ttl=6.0) as locks:
        async with locks.lock("a"), locks.rw_lock("b").read, locks.semaphore("c", 2):
            await asyncio.sleep(2.5)
        lease = await locks.lock("a").acquire()
        assert await locks.lock("a").force_release()
        async with asyncio.timeout(5):
            assert await lease.wait_lost() is LossReason.REVOKED
        with pytest.raises(LockLost):
            await lease.release()


@pytest.mark.parametrize("names", ["app:wrong", "nobody:x"])
async def test_a_user_that_is_not_let_in(guarded: Etcd, names: str) -> None:
    """Kept by `EtcdCluster._introduce`."""
    with pytest.raises(BackendError, match="does not let this manager in: etcdserver: authentication failed") as caught:
        async with LockManager(url_of(guarded, names)):
            pass
    assert not caught.value.transient
    with pytest.raises(BackendError, match="does not let this manager in: etcdserver: user name is empty"):
        async with LockManager(guarded.url):
            pass


async def test_a_right_is_missing(guarded: Etcd) -> None:
    with pytest.raises(BackendError, match="does not let this manager in: etcdserver: permission denied"):
        async with LockManager(url_of(guarded, "app:s%2Fe%3Ac"), namespace="other"):
            pass


async def test_nobody_is_there(server: Etcd) -> None:
    """Kept by `EtcdCluster._unreached`."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    wrong = {
        f"etcd://127.0.0.1:{port}": r"is it up, and is this its address\? \(.*Connect call failed.*\)$",
        server.url.replace("etcd:", "etcds:"): r"cannot be reached.*; does it speak TLS, as the URL says\?$",
    }
    for url, why in wrong.items():
        with pytest.raises(BackendError, match=why) as caught:
            await LockManager(url).open()
        assert caught.value.transient


async def test_tls(tmp_path: Path) -> None:
    """The server proves its name, and asks for the client's certificate."""
    ca = trustme.CA()
    mine, its = ca.issue_cert("client@example.org"), ca.issue_cert("localhost", "127.0.0.1")
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "cert", "key", "server", "server_key")}
    ca.cert_pem.write_to_path(str(files["ca"]))
    mine.private_key_pem.write_to_path(str(files["key"]))
    mine.cert_chain_pems[0].write_to_path(str(files["cert"]))
    its.private_key_pem.write_to_path(str(files["server_key"]))
    its.cert_chain_pems[0].write_to_path(str(files["server"]))
    options = ["--cert-file", str(files["server"]), "--key-file", str(files["server_key"])]
    options += ["--client-cert-auth", "--trusted-ca-file", str(files["ca"])]
    server = Etcd(1, *options, scheme="https")
    try:
        server.members[0].start()
        url = f"etcds://localhost:{server.members[0].port}?ca={files['ca']}"
        both = f"{url}&cert={files['cert']}&key={files['key']}"
        end = time.monotonic() + 30
        while True:
            try:
                async with LockManager(both) as locks, locks.lock("a"):
                    break
            except BackendError:
                assert time.monotonic() < end
                await asyncio.sleep(0.1)
        plain = url.partition("?")[0].replace("etcds", "etcd")
        refused = {
            plain: "if it has TLS, write etcds://",
            url: "etcd",  # it hangs up, perhaps later
            both.replace("?ca=", "?").replace(
                f"{files['ca']}&", ""
            ): "certificate verify failed.*does it speak TLS, as the",
        }
        for wrong, why in refused.items():
            with pytest.raises(BackendError, match=why):
                async with LockManager(wrong, request_timeout=2.0):
                    pass
    finally:
        server.close()
