"""What goes wrong with TLS and is no outage: files, certificates, and what both sides can speak."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from typing import Any

from ...errors import AiolockError, BackendError, ConfigurationError

_FILES = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")
_CLOCK = "look at this machine's clock, and at the certificate"
_VERDICTS = {
    9: f"is not yet valid: {_CLOCK}",
    10: f"has expired: renew it; {_CLOCK}",
}
"""By OpenSSL's number for what is wrong with the server's certificate."""
_OTHER_NAME = {62, 64}
_ALERT = re.compile("alert ([a-z ]+[a-z])")
_UNTRUSTED = {
    "access denied",
    "bad certificate",
    "certificate expired",
    "certificate required",
    "certificate revoked",
    "certificate unknown",
    "handshake failure",
    "unknown ca",
    "unsupported certificate",
}
"""Alerts of a server that wants a certificate of its clients, and has none or another."""
_NO_COMMON = {"insufficient security", "protocol version"}
NOT_TLS = re.compile("wrong version number|record layer failure|packet length too long|http request")
"""What OpenSSL says of an answer that is not TLS."""
_QUOTED = re.compile(r"^\[[^]]*\] ?|\.? \(_ssl\.c:\d+\)$")


def unusable(options: Mapping[str, Any], error: Exception) -> ConfigurationError:
    """Return the error for TLS files or options that cannot be used.

    Args:
        options: of the connection: the files are among them.
        error: why.
    """
    given = [(name, options[name]) for name in _FILES if options.get(name) and not isinstance(error, TypeError)]
    files = [one for one in given if not os.path.exists(one[1])] or given
    check = ", ".join(f"{name}={file}" for name, file in files) or "the options that begin with ssl_"
    failure = ConfigurationError("", f"TLS cannot be used ({_QUOTED.sub('', str(error))}): check {check}")
    failure.__cause__ = error
    return failure


def refused_tls(error: BaseException) -> AiolockError | None:
    """Return what `error`, or what led to it, says about TLS; None if it is nothing, or may pass by itself."""
    one: BaseException | None = error
    while one is not None and not isinstance(one, ssl.SSLError):
        one = one.__cause__ or one.__context__
    if one is None:
        return None
    if isinstance(one, ssl.SSLCertVerificationError):
        return BackendError("", f"the server's certificate {_verdict(one)}")
    found = _ALERT.search(str(one))
    alert = "" if found is None else found[1]
    if alert in _UNTRUSTED:
        return BackendError(
            "", f"the server refuses TLS with this client ({alert}): give a certificate that the server trusts, as "
            "ssl_certfile= and ssl_keyfile="
        )  # fmt: skip
    if alert in _NO_COMMON:
        return BackendError(
            "", f"the server refuses TLS with this client ({alert}): they have no version or cipher in common; check "
            "ssl_min_version= and ssl_ciphers="
        )  # fmt: skip
    if NOT_TLS.search(str(one)):
        return BackendError("", "the server answers, but neither in TLS nor like Redis: is this its address?")
    return None


def _verdict(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _OTHER_NAME:
        called = error.verify_message.rpartition("certificate is ")[2].rstrip(".")
        return f"is {called}: connect by a name that is in it"
    return _VERDICTS.get(
        error.verify_code, f"is not trusted ({error.verify_message}): give the file of its authority as ssl_ca_certs="
    )
