-- record: what the hash of a name has of each owner: read at most once, and changed. Follows state.lua.
-- Of a holder 'holds depth=… weight=… mints=… fence=… abandoned=… process=…': depth 0: the queue granted it, and nobody
-- has renewed it. Of a waiter 'waits number=… until=… lasts=… weight=… mints=… floor=… ttl=… process=…': until is the
-- ms until which it counts as alive, lasts how long a grant does from its last heartbeat on.
-- If a command is denied: it reads only, so nothing was changed.
local HOLDS = '^holds depth=(%d+) weight=(%d+) mints=(%d) fence=(%d+) abandoned=(%d) process=(.*)$'
local WAITS = '^waits number=(%d+) until=(%d+) lasts=(%d+) weight=(%d+) mints=(%d) floor=(%d+) ttl=(%d+) process=(.*)$'
local function fetch(state, owners)
  local new = {}
  for _, owner in ipairs(owners) do if not state.records[owner] then new[#new + 1] = owner end end
  local found = new[1] and redis.call('HMGET', state.key, unpack(new))
  for i, owner in ipairs(new) do state.records[owner] = found[i] or '' end
end
local function match(state, owner, pattern)
  if not state.records[owner] then fetch(state, { owner }) end
  return string.match(state.records[owner], pattern)
end
local function holder(state, owner) return match(state, owner, HOLDS) end
local function waiter(state, owner) return match(state, owner, WAITS) end
local function process(state, owner) return select(6, holder(state, owner)) or '' end
local function write(state, owner, record)
  local fields = state.fields
  state.records[owner] = record
  if not fields then state.fields = { owner, record } return end
  fields[#fields + 1], fields[#fields + 2] = owner, record
end
local function hold(state, owner, depth, weight, mints, fence, abandoned, told)
  write(state, owner, 'holds depth=' .. depth .. ' weight=' .. weight .. ' mints=' .. mints .. ' fence=' .. fence
    .. ' abandoned=' .. abandoned .. ' process=' .. told)
end
local function remove(state, owner)
  if not state.records[owner] then fetch(state, { owner }) end
  if state.records[owner] ~= '' then write(state, owner, '') end
  local ended = state.ended or {}
  state.ended, ended[#ended + 1] = ended, owner
end
