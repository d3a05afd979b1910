-- close: writes what changed in a name, and then announces it. Follows turn.lua.
-- One HSET changes the holders and how much is held: a name is never fuller than its holders make it.
-- If a command is denied: before that HSET only the order has changed, which may be ahead of the hash; after it
-- all is done, and ended owners may be left over. The next request trusts the hash, and repairs either.
local function close(state, clean_ttl)
  local order, ended, idle, ms = state.scores, nil, state.holders + state.waiters == 0, lasting(state)
  if state.ended then
    for _, owner in ipairs(state.ended) do
      if state.records[owner] == '' then
        ended = ended or {}
        ended[#ended + 1] = owner
      end
    end
  end
  local anew = idle or state.expires < clock(state) + ms - GRACE / 2 -- so that few requests write an expiry
  if anew and not idle then state.expires = clock(state) + ms end
  local fields = changes(state)
  ms = ms > 0 + DAY and text(ms) or DAY
  if clean_ttl and idle and state.abandoned == '0' and state.resized == '0' then ms = clean_ttl end
  -- At the memory limit the first write decides: only a write that adds data is refused there.
  if not state.grows and (order or fields or ended) then
    if anew then redis.call('PEXPIRE', state.key, ms) else redis.pcall('HDEL', state.key, '') end
  end
  if order then redis.call('ZADD', state.order, unpack(order)) end
  if anew and (order or state.joined) and not tonumber(redis.pcall('PEXPIRE', state.order, ms)) then
    if state.new then redis.pcall('DEL', state.order) end -- otherwise it would have no expiry
    redis.call('PEXPIRE', state.order, ms)
  end
  if fields then redis.call('HSET', state.key, unpack(fields)) end
  if anew and state.grows then redis.call('PEXPIRE', state.key, ms) end
  if ended then redis.pcall('HDEL', state.key, unpack(ended)) end
  if ended and idle then redis.pcall('DEL', state.order) end
  if ended and not idle then redis.pcall('ZREM', state.order, unpack(ended)) end
  if state.told then
    for _, told in ipairs(state.told) do redis.pcall('PUBLISH', told[1], told[2]) end
  end
end
