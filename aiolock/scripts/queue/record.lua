-- record: what the hash of a name has of each owner: read at most once, and changed. Follows state.lua.
-- If a command is denied: it reads only, so nothing was changed.
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
local function holder(state, owner) return match(state, owner, '^h (%d+) (%d+) (%d) (%d+) (%d)$') end
local function waiter(state, owner) return match(state, owner, '^w (%d+) (%d+) (%d+) (%d+) (%d) (%d+) (%d+) (.*)$') end
local function write(state, owner, record)
  local fields = state.fields
  state.records[owner] = record
  if not fields then state.fields = { owner, record } return end
  fields[#fields + 1], fields[#fields + 2] = owner, record
end
local function remove(state, owner)
  if not state.records[owner] then fetch(state, { owner }) end
  if state.records[owner] ~= '' then write(state, owner, '') end
  local ended = state.ended or {}
  state.ended, ended[#ended + 1] = ended, owner
end
