"""The order of answers: whatever breaks it is noticed before anyone gets another's answer."""

from __future__ import annotations

import asyncio

import pytest
from hiredis import PushNotification

from aiolock.backends.redis.channels import Channels, Listener
from aiolock.backends.redis.failures import ErrorReply
from aiolock.backends.redis.replies import Confirmation, Departure, Desync, Echo, Loaded, Replies, Scripts
from aiolock.errors import BackendError

BUSY = ErrorReply("BUSY Redis is busy running a script")
DENIED = ErrorReply("NOPERM User locks has no permissions to run the 'script|load' command")


@pytest.fixture
def channels() -> Channels:
    return Channels(lambda listener: None)


@pytest.fixture
def replies() -> Replies:
    return Replies()


async def test_a_reply_that_no_one_asked_for(replies: Replies) -> None:
    with pytest.raises(Desync):
        replies.receive(b"x")


async def test_an_echo(replies: Replies) -> None:
    for nonce in (b"1", b"2", b"3", b"4"):
        replies.pending.append(Echo(nonce))
    assert replies.receive(b"1")
    assert replies.receive(BUSY)  # a sign of life like any other
    assert replies.receive(b"PONG")  # as Envoy answers whatever it is asked
    with pytest.raises(Desync):
        replies.receive(b"2")


async def test_a_loaded_script(replies: Replies) -> None:
    scripts = Scripts()
    assert scripts.load_first("abc")
    assert not scripts.load_first("abc")
    replies.pending.append(Loaded(scripts, "abc"))
    replies.receive(b"abc")
    replies.pending.append(Loaded(scripts, "abc"))
    replies.receive(BUSY)
    assert scripts.load_first("abc")
    replies.pending.append(Loaded(scripts, "abc"))
    with pytest.raises(Desync):
        replies.receive([b"granted"])


async def test_a_script_that_may_not_be_loaded(replies: Replies) -> None:
    """Its first call carries its text, and the others its digest, unless that may not be used either."""
    scripts = Scripts()
    assert scripts.load_first("abc")
    assert not scripts.send_text("abc")
    replies.pending.append(Loaded(scripts, "abc"))
    replies.receive(DENIED)
    for sha in ("abc", "def"):
        assert not scripts.load_first(sha)
        assert scripts.send_text(sha)
        assert not scripts.send_text(sha)
    scripts.no_digests()
    for _ in range(2):
        assert not scripts.load_first("abc")
        assert scripts.send_text("abc")


def subscribing(channels: Channels, replies: Replies, name: bytes) -> Listener:
    listener = Listener(name, lambda payload: None, asyncio.get_running_loop().create_future())
    channels.add(listener)
    replies.pending.append(Confirmation(b"subscribe", name, channels, listener))
    return listener


async def test_a_subscription_is_confirmed_in_its_place(channels: Channels, replies: Replies) -> None:
    listener = subscribing(channels, replies, b"c")
    assert replies.receive(PushNotification([b"subscribe", b"c", 1]))
    assert listener.future.done()
    assert len(replies.pending) == 0


async def test_a_subscription_confirmed_out_of_place(channels: Channels, replies: Replies) -> None:
    replies.pending.append(Echo(b"1"))
    listener = subscribing(channels, replies, b"c")
    with pytest.raises(Desync):
        replies.receive(PushNotification([b"subscribe", b"c", 1]))
    assert not listener.future.done()


async def test_a_confirmation_for_a_former_subscriber_wakes_no_one(channels: Channels, replies: Replies) -> None:
    woken: list[str] = []
    for word in ("first", "second"):
        listener = subscribing(channels, replies, b"c")
        listener.wake = lambda payload, word=word: woken.append(word)
    replies.receive(PushNotification([b"subscribe", b"c", 1]))
    assert woken == []
    assert not listener.future.done()
    replies.receive(PushNotification([b"subscribe", b"c", 1]))
    assert woken == ["second"]
    assert listener.future.done()


async def test_a_reply_in_the_place_of_a_subscription(channels: Channels, replies: Replies) -> None:
    subscribing(channels, replies, b"c")
    with pytest.raises(Desync):
        replies.receive([b"granted"])


async def test_an_error_in_the_place_of_a_subscription(channels: Channels, replies: Replies) -> None:
    listener = subscribing(channels, replies, b"c")
    replies.pending.append(Echo(b"1"))
    assert replies.receive(ErrorReply("NOPERM no"))
    assert replies.receive(b"1")
    assert listener.future.exception() is not None
    assert channels.all() == []


async def test_unknown_pushes_are_ignored(replies: Replies) -> None:
    assert not replies.receive(PushNotification([b"invalidate", [b"key"]]))
    assert not replies.receive(PushNotification([b"unsubscribe", b"c", 0]))


@pytest.fixture
async def leaving(channels: Channels) -> Listener:
    listener = Listener(b"m:{a}", lambda payload: None, asyncio.get_running_loop().create_future(), True)
    channels.add(listener)
    channels.confirm(listener)
    channels.remove(b"m:{a}")
    return listener


MOVED = ErrorReply("MOVED 15495 ping.example:6379")
LEFT = PushNotification([b"sunsubscribe", b"m:{a}", 0])


@pytest.mark.parametrize(
    "answers",
    [
        [LEFT, b"1"],
        [MOVED, b"1"],
        [LEFT, MOVED, b"1"],
        [MOVED, b"PONG"],
        [LEFT, ErrorReply("ERR unknown command 'PING'")],
    ],
    ids=["left", "moved", "ended by the server at the same time", "Envoy", "PING is renamed"],
)
async def test_the_end_of_a_sharded_subscription(
    channels: Channels, replies: Replies, leaving: Listener, answers: list[object]
) -> None:
    """However many answers there are, the next is the next call's. Kept by Departure."""
    replies.pending.append(Departure(b"1", leaving, channels, replies.pending))
    replies.pending.append(Echo(b"2"))
    for answer in answers:
        assert channels.has(leaving)
        replies.receive(answer)
    assert not channels.has(leaving)
    replies.receive(b"2")
    assert not replies.pending


@pytest.mark.parametrize("answers", [[BUSY, BUSY], [b"2"]])
async def test_an_end_that_is_not_certain(
    channels: Channels, replies: Replies, leaving: Listener, answers: list[object]
) -> None:
    replies.pending.append(Departure(b"1", leaving, channels, replies.pending))
    *first, last = answers
    for answer in first:
        replies.receive(answer)
    with pytest.raises(Desync):
        replies.receive(last)


async def test_wanted_again_while_it_ends(channels: Channels, leaving: Listener) -> None:
    """The push that ends the old one does not end the new one, which gets the messages. Kept by Channels.end."""
    heard: list[object] = []
    wanted = Listener(b"m:{a}", heard.append, asyncio.get_running_loop().create_future(), True)
    channels.deliver(b"m:{a}", b"too early", sharded=True)
    channels.add(wanted)
    channels.deliver(b"m:{a}", b"x", sharded=True)
    channels.end(b"m:{a}")
    channels.left(leaving)
    channels.confirm(wanted)
    channels.deliver(b"m:{a}", b"y", sharded=True)
    assert heard == ["x", None, "y"]
    channels.end(b"m:{a}")
    assert isinstance(heard[-1], BackendError)


async def test_what_was_ending_is_not_renewed(channels: Channels, leaving: Listener) -> None:
    """On a new connection it is not subscribed to. Kept by Channels.all."""
    assert channels.all() == []
    assert not channels.has(leaving)
