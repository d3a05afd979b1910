-- record: what the hash of a name has of each owner: read at most once, and changed. Stands behind name.lua.
-- If a command is denied: it reads only, so nothing was changed.
local function fetch(name, owners)
  local new = {}
  for _, owner in ipairs(owners) do if not name.records[owner] then new[#new + 1] = owner end end
  local found = new[1] and redis.call('HMGET', name.key, unpack(new))
  for i, owner in ipairs(new) do name.records[owner] = found[i] or '' end
end
local function match(name, owner, pattern)
  if not name.records[owner] then fetch(name, { owner }) end
  return string.match(name.records[owner], pattern)
end
local function holder(name, owner) return match(name, owner, '^h (%d+) (%d+) (%d) (%d+) (%d)$') end
local function waiter(name, owner) return match(name, owner, '^w (%d+) (%d+) (%d+) (%d+) (%d) (%d+) (%d+) (.*)$') end
local function write(name, owner, record)
  local fields = name.fields
  name.records[owner] = record
  if not fields then name.fields = { owner, record } return end
  fields[#fields + 1], fields[#fields + 2] = owner, record
end
local function remove(name, owner)
  if not name.records[owner] then fetch(name, { owner }) end
  if name.records[owner] ~= '' then write(name, owner, '') end
  local ended = name.ended or {}
  name.ended, ended[#ended + 1] = ended, owner
end
