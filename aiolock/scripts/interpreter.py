"""Runs Lua in this process, as a server does with EVALSHA."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..errors import ConfigurationError
from .base import Arg, Reply
from .store import ErrorReply

Answer = str | int | None | list["Answer"]
"""What a command answers a script."""
MANY = 1000
"""How many values cross at once: Lua's stack has no room for many more."""
HOST = """
local command, MANY = ...
local function received(first, ...)
  if first == true then return { ... } end
  return first
end
local redis = {}
function redis.pcall(...) return received(command(...)) end
function redis.call(...)
  local reply = received(command(...))
  if type(reply) == 'table' and reply.err then error(reply, 0) end
  return reply
end
-- All that scripts may use; a server refuses every other global, too.
local scope = { error = error, ipairs = ipairs, math = math, next = next, pairs = pairs, pcall = pcall,
  select = select, string = string, table = table, tonumber = tonumber, type = type, unpack = unpack }
local function refuse(_, name) error("Script attempted to access nonexistent global variable '" .. name .. "'", 2) end
setmetatable(scope, { __index = refuse, __newindex = refuse })
local function compile(lua)
  local script, problem = loadstring('local KEYS, ARGV, redis = ... ' .. lua, '@user_script')
  return setfenv(script or error(problem, 0), scope)
end
-- Appends a list as `true`, its length and its items, so that lists of lists cross in one piece.
local function flatten(flat, at, value)
  if type(value) == 'table' then
    local head, count = at, 0
    at = at + 2
    while value[count + 1] ~= nil do
      count = count + 1
      at = flatten(flat, at, value[count])
    end
    flat[head], flat[head + 1] = true, count
    return at
  end
  if type(value) == 'number' then value = value < 0 and math.ceil(value) or math.floor(value) end
  flat[at] = value == true and 1 or value or nil
  return at + 1
end
local function run(script, count, words)
  local keys, args = {}, {}
  for i = 1, count do keys[i] = words[i] end
  for i = count + 1, #words do args[i - count] = words[i] end
  local done, value = pcall(script, keys, args, redis)
  if type(value) == 'string' then return done, done and value or 'ERR ' .. value end
  if type(value) == 'table' and value.err then return false, value.err end
  if not done then return done, value end
  local flat = {}
  local size = flatten(flat, 1, value) - 1
  if size > MANY then return done, flat, size end
  return done, unpack(flat, 1, size)
end
return compile, run, function(script, count, ...) return run(script, count, { ... }) end
"""


def load(what: str = "locks in memory run") -> Any:
    """Return the module with the Lua that servers have.

    Raises:
        ConfigurationError: lupa is not installed.
    """
    try:
        import lupa.lua51
    except ImportError as error:
        raise ConfigurationError("", f"{what} the Lua that servers run, and need lupa: pip install lupa") from error
    return lupa.lua51


class Interpreter:
    """A Lua like a server's, which keeps the scripts that it has compiled. Only one thread may use it.

    Args:
        commands: what scripts can call, by name. Each gets the place that the run is about, and its words as the script
            wrote them: text or numbers. What it raises as `ErrorReply`, a script may catch.
    """

    def __init__(self, commands: Mapping[str, Callable[..., Answer]]) -> None:
        lua = load().LuaRuntime(unpack_returned_tuples=True, register_eval=False, register_builtins=False)
        table: Callable[[object], Any] = lua.table_from
        places: list[object] = []  # Lua keeps what it was given for a while: it must not keep these

        def command(name: str, *words: object) -> object:
            try:
                answer = commands[name](places[-1], *words)
            except ErrorReply as error:
                return table({"err": str(error)})
            if type(answer) is list and len(answer) < MANY:
                return (True, *map(given, answer))
            return given(answer)

        def given(answer: Answer) -> object:
            if isinstance(answer, list):
                return table(map(given, answer))
            return False if answer is None else answer

        self._table = table
        self._places = places
        self._compile, self._run, self._run_few = lua.execute(HOST, command, MANY)
        self._compiled: dict[str, Any] = {}

    def run(self, lua: str, place: object, keys: Sequence[str], args: Sequence[Arg]) -> Reply:
        """Run a script.

        Args:
            lua: its text.
            place: what the commands work on.
            keys: KEYS.
            args: ARGV.

        Raises:
            ErrorReply: what a server would answer.
        """
        script = self._compiled.get(lua)
        if script is None:
            script = self._compiled[lua] = self._compile(lua)
        words = [*keys, *map(str, args)]
        self._places.append(place)
        try:
            if len(words) < MANY:
                done, *found = self._run_few(script, len(keys), *words)
            else:
                done, *found = self._run(script, len(keys), self._table(words))
        finally:
            self._places.pop()
        first = found[0]
        if not done:
            raise first if isinstance(first, BaseException) else ErrorReply(first)
        if isinstance(first, str):
            return first.encode()
        if isinstance(first, int | None):
            return _reply(iter(found))
        table, size = found
        return _reply(table[at] for at in range(1, size + 1))


def _reply(words: Iterator[Any]) -> Reply:
    word = next(words)
    if word is True:
        return [_reply(words) for _ in range(next(words))]
    return word.encode() if isinstance(word, str) else word
