-- line: the waiters of a condition, first to last, as scripts read and change them. Follows lock/version and clock.
-- KEYS    condition: a hash, version, and owner -> 'number=<n> until=<ms> notified=<0 or 1> process=<host and pid>'
-- recall() says what is kept of one, look() of all. A waiter without a heartbeat is `ended`; if it was notified, that
-- counts as `passed`: another must be notified.
-- If a command is denied: nothing was changed, or the first of several writes; what is denied raises.
local line, ended, passed, ends = {}, {}, 0, now
local function parse(owner, text)
  local number, till, notified, process = string.match(text or '', '^number=(%d+) until=(%d+) notified=(%d) process=(.*)$')
  local entry = { owner = owner, number = tonumber(number), till = tonumber(till), notified = notified, process = process }
  return number and entry
end
local function recall(owner)
  local kept = redis.pcall('HMGET', KEYS[1], 'version', owner)
  check(KEYS[1], kept, '0.2')
  return parse(owner, kept[2])
end
local function put(e)
  local text = string.format('number=%.0f until=%.0f notified=%s process=', e.number, e.till, e.notified) .. e.process
  redis.call('HSET', KEYS[1], 'version', VERSION, e.owner, text)
end
local function drop(owner)
  redis.call('HDEL', KEYS[1], owner)
  if redis.call('HLEN', KEYS[1]) == 1 then redis.call('HDEL', KEYS[1], 'version') end
end
local function look()
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local entry = parse(all[i], all[i + 1])
    if entry and entry.till > now then
      line[#line + 1], line[entry.owner], ends = entry, entry, math.max(ends, entry.till)
    elseif entry then
      ended[#ended + 1], passed = entry.owner, passed + entry.notified
    end
  end
  table.sort(line, function(one, other) return one.number < other.number end)
end
