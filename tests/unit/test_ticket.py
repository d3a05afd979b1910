"""A ticket's text: what it carries, how long it gets, and what is refused."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace

import pytest

from aiolock import ConfigurationError
from aiolock.core.holding.ticket import PREFIX, Ticket
from aiolock.scripts.keys import Keys

OWNER = "0123456789abcdef" * 2 + ":17"
TICKET = Ticket("lock", "order:42", OWNER, 1, 1_795_181_222_130_200, False, "aiolock", 0)
LONGEST = Ticket("semaphore", "\n" * 512, f"{'f' * 32}:{2**63}", 2**31 - 1, 2**53 - 1, True, "aiolock", 16383)


def packed(body: str) -> str:
    """A ticket with any body, undamaged."""
    raw = body.encode()
    return PREFIX + base64.urlsafe_b64encode(zlib.crc32(raw).to_bytes(4, "big") + raw).decode().rstrip("=")


@pytest.mark.parametrize(
    "ticket",
    [
        TICKET,
        LONGEST,
        *(
            replace(TICKET, owner=OWNER.replace(":17", own))
            for own in (":f17", ":17p9", ":f17p100", ":17~300", ":f1p2~3")
        ),
        *(replace(TICKET, name=name) for name in ("x", "a\nb\nc", "{a}%", "größe: 7 µm", "\0", "🔒" * 128)),
        replace(TICKET, tainted=True, db=3, namespace="shop:ä"),
    ],
    ids=lambda ticket: ascii(ticket.name[:8]),
)
def test_reads_what_it_encoded(ticket: Ticket) -> None:
    text = ticket.encode()
    assert Ticket.read(text) == ticket
    assert Ticket.read(json.loads(json.dumps(text))) == ticket


def test_is_short_plain_text() -> None:
    """Kept by packing it in lines, the name last: JSON would need six characters for a control character."""
    text = LONGEST.encode()
    assert len(text) < 900
    assert text.isascii()
    assert set(text.removeprefix(PREFIX)) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize("tail", ["", " ", "\n", "=", "A"])
def test_a_damaged_one_is_refused(tail: str) -> None:
    """Cut anywhere, one character changed anywhere, or text added at the end. Kept by the checksum and by encoding it
    again: the last character of base64 has bits that are never read.
    """
    text = TICKET.encode()
    damaged = [text + tail] if tail else [text[:length] for length in range(len(text))]
    damaged += [f"{text[:at]}{'A' if text[at] != 'A' else 'B'}{text[at + 1 :]}{tail}" for at in range(len(text))]
    for one in damaged:
        with pytest.raises(ConfigurationError, match="resume"):
            Ticket.read(one)


@pytest.mark.parametrize(
    "text",
    [
        None,
        b"aiolock1.",
        17,
        "",
        "order:42",
        PREFIX,
        f"{PREFIX}é",
        TICKET.encode().replace("aiolock1.", "aiolock2."),
        packed("lock"),
        *(replace(TICKET, owner=OWNER + odd).encode() for odd in ("q2", "p0", "p2p2", "~3p2", "~", ":3", " ")),
        packed("lock\nsomebody\n5\n0\n0\naiolock\norder:42"),
        packed(f"lock\n{OWNER}\nfive\n0\n0\naiolock\norder:42"),
        packed(f"lock\n{OWNER}\n0\n0\n0\naiolock\norder:42"),
        packed(f"lock\n{OWNER}\n{2**53}\n0\n0\naiolock\norder:42"),
        packed(f"lock\n{OWNER}\n{'9' * 5000}\n0\n0\naiolock\norder:42"),
        packed(f"lock\n{OWNER}\n05\n0\n0\naiolock\norder:42"),
        packed(f"lock\n{OWNER}\n5\nyes\n0\naiolock\norder:42"),
        packed(f"lock\n{OWNER}\n5\n0\n0\naiolock\n"),
        packed(f"lock\n{OWNER}\n5\n0\n0\naiolock\n{'x' * 513}"),
        PREFIX + base64.urlsafe_b64encode(zlib.crc32(b"\xff").to_bytes(4, "big") + b"\xff").decode(),
    ],
)
def test_what_is_not_a_ticket(text: object) -> None:
    with pytest.raises(ConfigurationError, match="pass the text that lease") as caught:
        Ticket.read(text)
    assert OWNER not in str(caught.value)


def test_never_shows_the_owner() -> None:
    assert "0123456789abcdef" not in repr(TICKET)


@pytest.mark.parametrize("keys", [Keys("shop"), Keys("aiolock", 1)])
def test_of_another_home(keys: Keys) -> None:
    TICKET.check_home(Keys("aiolock"))
    with pytest.raises(ConfigurationError, match="'order:42' is of namespace 'aiolock' and database 0") as caught:
        TICKET.check_home(keys)
    assert caught.value.name == "order:42"
