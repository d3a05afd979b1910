-- line: the waiters of a condition, first to last, as scripts read and change them. Follows clock.
-- KEYS    condition: a hash, owner -> 'number alive-until notified'
-- Nothing is read before look(). A waiter without a sign of life is `ended`; if it was notified, that counts as
-- `passed`: another must be notified.
-- If a command is denied: nothing was changed, or the first of several writes; what is denied raises.
local line, ended, passed, ends = {}, {}, 0, now
local function parse(owner, text)
  local number, alive, notified = string.match(text or '', '^(%d+) (%d+) (%d)$')
  return number and { owner = owner, number = tonumber(number), alive = tonumber(alive), notified = tonumber(notified) }
end
local function put(entry)
  redis.call('HSET', KEYS[1], entry.owner, string.format('%.0f %.0f %d', entry.number, entry.alive, entry.notified))
end
local function look()
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local entry = parse(all[i], all[i + 1])
    if entry.alive > now then
      line[#line + 1], line[entry.owner], ends = entry, entry, math.max(ends, entry.alive)
    else
      ended[#ended + 1], passed = entry.owner, passed + entry.notified
    end
  end
  table.sort(line, function(one, other) return one.number < other.number end)
end
local function keep(ms) redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ms or ends - now + 60000)) end
local function notify(count, channel)
  local notified = 0
  for _, entry in ipairs(line) do
    if notified >= count then break end
    if entry.notified == 0 then
      entry.notified, notified = 1, notified + 1
      put(entry)
      redis.pcall('PUBLISH', channel .. string.match(entry.owner, '^[^:]*'), 'refresh ' .. entry.owner)
    end
  end
  for _, owner in ipairs(ended) do if not line[owner] then redis.call('HDEL', KEYS[1], owner) end end
  return notified
end
