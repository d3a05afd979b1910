-- close: writes what was changed of a name, and then tells of it. Stands behind turn.lua.
-- Who holds and how much is held change in one HSET: no name is fuller than those who hold it.
-- If a command is denied: before that HSET nothing is changed but the order, which may be ahead of the hash; behind it
-- all is done, and what has ended may be left over. The next request goes by the hash, and mends either.
local function encode(name)
  local numbers = string.format('%.0f %.0f %.0f %.0f %.0f %.0f %s %s ', name.used, name.holders, name.waiters,
    name.longest, name.shut, name.capacity, name.resized, name.dirty)
  return numbers .. name.last
end
local function close(name, clean_ttl)
  local state, order, ended, idle = encode(name), name.scores, nil, name.holders + name.waiters == 0
  local lasting = name.longest + GRACE > 0 + DAY and text(name.longest + GRACE) or DAY
  if name.ended then
    for _, owner in ipairs(name.ended) do
      if name.records[owner] == '' then
        ended = ended or {}
        ended[#ended + 1] = owner
      end
    end
  end
  if state ~= name.state then write(name, 'state', state) end
  local fields = name.fields
  if clean_ttl and idle and name.dirty == '0' and name.resized == '0' then lasting = clean_ttl end
  -- At the memory limit the first write decides: only what makes more of it is refused there.
  if not name.grows and (order or fields or ended) then redis.call('PEXPIRE', name.key, lasting) end
  if order then redis.call('ZADD', name.order, unpack(order)) end
  if order or name.joined then redis.call('PEXPIRE', name.order, lasting) end
  if fields then redis.call('HSET', name.key, unpack(fields)) end
  if name.grows then redis.call('PEXPIRE', name.key, lasting) end
  if ended then redis.pcall('HDEL', name.key, unpack(ended)) end
  if ended and idle then redis.pcall('DEL', name.order) end
  if ended and not idle then redis.pcall('ZREM', name.order, unpack(ended)) end
  if name.told then
    for _, told in ipairs(name.told) do redis.pcall('PUBLISH', told[1], told[2]) end
  end
end
