"""The server proves its name, and asks for the client's certificate."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from aiolock import BackendError, LockManager
from aiolock.testing.server import _free_port
from tests.support.zookeeper import ZooKeeper


def _key(pem: bytes) -> bytes:
    """The same key in the form that Java reads."""
    known = serialization.load_pem_private_key(pem, None)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return known.private_bytes(*form)


async def listening(port: int) -> None:
    """Wait until the server does; it begins with the port without TLS."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(ConnectionError):
                (await asyncio.open_connection("127.0.0.1", port))[1].close()
                return
            await asyncio.sleep(0.05)


async def test_tls(tmp_path: Path) -> None:
    ca = trustme.CA()
    mine, its = ca.issue_cert("client@example.org"), ca.issue_cert("localhost", "127.0.0.1")
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "cert", "key", "server")}
    ca.cert_pem.write_to_path(str(files["ca"]))
    mine.private_key_pem.write_to_path(str(files["key"]))
    mine.cert_chain_pems[0].write_to_path(str(files["cert"]))
    files["server"].write_bytes(_key(its.private_key_pem.bytes()) + its.cert_chain_pems[0].bytes())
    port = _free_port()
    options = [
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"secureClientPort={port}",
        f"ssl.keyStore.location={files['server']}",
        "ssl.keyStore.type=PEM",
        f"ssl.trustStore.location={files['ca']}",
        "ssl.trustStore.type=PEM",
    ]
    with ZooKeeper(1, *options):
        url = f"zookeepers://localhost:{port}?ca={files['ca']}"
        both = f"{url}&cert={files['cert']}&key={files['key']}"
        await listening(port)
        async with LockManager(both) as locks, locks.lock("a") as lease:
            await lease.renew()
        refused = {
            f"zookeeper://localhost:{port}": "if it has TLS, write zookeepers://",
            url: "ZooKeeper",  # it hangs up, perhaps later
            both.replace("?ca=", "?").replace(
                f"{files['ca']}&", ""
            ): "certificate verify failed.*does it speak TLS, as the",
        }
        for wrong, why in refused.items():
            with pytest.raises(BackendError, match=why):
                async with LockManager(wrong, request_timeout=2.0):
                    pass
