"""Lua in this process does what it does on a server: words, answers, errors; and keeps nothing that it was lent."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aiolock import ConfigurationError, LockManager
from aiolock.scripts import commands
from aiolock.scripts.base import Reply
from aiolock.scripts.store import ErrorReply, Store
from aiolock.testing import MemoryBackend


def run(lua: str, *words: str | int, keys: int = 0, store: Store | None = None) -> Reply:
    named = [str(word) for word in words[:keys]]
    return commands.run(store or Store(lambda: 1_000_000), lua, named, words[keys:])


@pytest.mark.parametrize(
    ("lua", "answer"),
    [
        ("return 'a\\0ü'", "a\0ü".encode()),
        ("return 2.9", 2),
        ("return -2.9", -2),
        ("return 2 ^ 52", 2**52),
        ("return true", 1),
        ("return false", None),
        ("return nil", None),
        ("return", None),
        ("return {}", []),
        ("return { 1, 2, nil, 4 }", [1, 2]),
        ("return { false, 'a', { 'b', {}, { 3.5 } }, 4 }", [None, b"a", [b"b", [], [3]], 4]),
        ("return { KEYS[1], #KEYS, ARGV[1], ARGV[2] + 1, #ARGV }", [b"k", 1, b"x", 6, 2]),
        ("return redis.call('GET', 'nothing') == false and 'false'", b"false"),
        ("return redis.call('HMGET', KEYS[1], 'a', 'b')", [None, None]),
        ("redis.call('HSET', KEYS[1], 'a', 0.5) return redis.call('HGETALL', KEYS[1])", [b"a", b"0.5"]),
    ],
)
def test_answers(lua: str, answer: Reply) -> None:
    assert run(lua, "k", "x", 5, keys=1) == answer


@pytest.mark.parametrize(
    ("lua", "said"),
    [
        ("return { err = 'LATER it is' }", "LATER it is"),
        ("redis.call('SET', 'k', 1, 'PX', 9) return redis.call('HGET', 'k', 'a')", "WRONGTYPE "),
        ("\nerror('no')", "ERR user_script:2: no"),
        ("local a = nil\nreturn a.b", r"ERR user_script:2: attempt to index local 'a'"),
        ("return os.time()", "nonexistent global variable 'os'"),
        ("a = 1", "global variable 'a'"),
    ],
)
def test_errors(lua: str, said: str) -> None:
    """Guards `scope`: what a server refuses must not pass in memory."""
    with pytest.raises(ErrorReply, match=said):
        run(lua)


def test_a_script_can_catch_an_error_of_a_command() -> None:
    spoil = "redis.call('SET', 'k', 1, 'PX', 9) "
    assert run(spoil + "return string.sub(redis.pcall('HLEN', 'k').err, 1, 9)") == b"WRONGTYPE"
    caught = "local done, found = pcall(redis.call, 'HLEN', 'k') return { done, string.sub(found.err, 1, 9) }"
    assert run(spoil + caught) == [None, b"WRONGTYPE"]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_what_python_raises_comes_back(monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    """It is no answer of a server's."""

    def broken(store: Store) -> int:
        raise error

    monkeypatch.setitem(commands.COMMANDS, "TIME", broken)
    with pytest.raises(error):
        run("return redis.call('TIME')")
    assert run("return 1") == 1


def test_there_may_be_very_many_words() -> None:
    """More than fit on Lua's stack. Guards MANY."""
    count = 20_000
    assert run("return { #KEYS, #ARGV, ARGV[#ARGV] }", *range(count), keys=7) == [7, count - 7, b"19999"]
    assert run("return { ARGV, false, ARGV }", *range(count)) == [
        found := [b"%d" % number for number in range(count)],
        None,
        found,
    ]
    store = Store(lambda: 0)
    store.hset("k", {str(number): "x" for number in range(count)})
    assert run("return #redis.call('HGETALL', 'k')", store=store) == 2 * count
    assert run("return #redis.call('HSCAN', 'k', 0)[2]", store=store) == 2 * count


def test_a_command_may_run_another_script() -> None:
    """As a subscriber may. Guards `places`."""
    here, there = Store(lambda: 5), Store(lambda: 7_000_005)
    found: list[Reply] = []
    here.subscribe("c", lambda payload: found.append(run("return redis.call('TIME')", store=there)))
    assert run("redis.call('PUBLISH', 'c', '') return redis.call('TIME')[2]", store=here) == b"5"
    assert found == [[b"7", b"5"]]


def test_threads_share_a_store() -> None:
    store = Store(lambda: 0)
    lua = "local n = redis.call('HGET', 'k', 'n') or 0 redis.call('HSET', 'k', 'n', n + 1)"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: run(lua, store=store), range(400)))
    assert store.hget("k", "n") == "400"


def test_a_store_is_not_kept() -> None:
    """Guards `places`: Lua keeps what it was given until it looks for garbage, and `memory://name` would not end."""
    store = Store(lambda: 0)
    run("return redis.call('TIME')", store=store)
    kept = weakref.ref(store)
    del store
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("make", [lambda: LockManager("memory://"), lambda: LockManager("memory://a"), MemoryBackend])
@pytest.mark.filterwarnings("ignore:memory.// does not cross processes:RuntimeWarning")
def test_without_lupa_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    """Guards MemoryBackend.__init__: later is too late."""
    monkeypatch.setitem(sys.modules, "lupa", None)
    monkeypatch.setitem(sys.modules, "lupa.lua51", None)
    with pytest.raises(ConfigurationError, match="pip install lupa"):
        make()


def test_only_locks_in_memory_need_lupa() -> None:
    """Guards the import in `load`."""
    modules = ["", ".sync", ".recipes", ".cli", ".testing", ".testing.server", ".testing.cluster"]
    imports = "".join(f"import aiolock{module}\n" for module in modules)
    code = f"import sys\nsys.modules['lupa'] = None\n{imports}aiolock.LockManager('redis://localhost')"
    subprocess.run([sys.executable, "-c", code], check=True)
