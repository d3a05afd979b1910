-- close: writes what was changed of a name, and then tells of it. Stands behind turn.lua.
-- Who holds and how much is held change in one HSET: no name is fuller than those who hold it.
-- If a command is denied: before that HSET nothing is changed but the order, which may be ahead of the hash; behind it
-- all is done, and what has ended may be left over. The next request goes by the hash, and mends either.
local function close(name, clean_ttl)
  local fields, order, ended, idle = name.fields, name.scored, {}, name.holders + name.waiters == 0
  for _, owner in ipairs(name.ended) do if name.records[owner] == '' then ended[#ended + 1] = owner end end
  local state, lasting = spell(name), text(math.max(DAY, name.longest + GRACE))
  if state ~= name.state then fields[#fields + 1], fields[#fields + 2] = 'state', state end
  if clean_ttl and idle and name.dirty == '0' and name.resized == '0' then lasting = clean_ttl end
  -- At the memory limit the first write decides: only what makes more of it is refused there.
  if not name.grows and (order[1] or fields[1] or ended[1]) then redis.call('PEXPIRE', name.key, lasting) end
  if order[1] then redis.call('ZADD', name.order, unpack(order)) end
  if order[1] or name.joined then redis.call('PEXPIRE', name.order, lasting) end
  if fields[1] then redis.call('HSET', name.key, unpack(fields)) end
  if name.grows then redis.call('PEXPIRE', name.key, lasting) end
  if ended[1] then redis.pcall('HDEL', name.key, unpack(ended)) end
  if ended[1] and idle then redis.pcall('DEL', name.order) end
  if ended[1] and not idle then redis.pcall('ZREM', name.order, unpack(ended)) end
  for _, told in ipairs(name.told) do redis.pcall('PUBLISH', told[1], told[2]) end
end
