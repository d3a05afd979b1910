-- wake: notifies the first of a line that were not yet, and forgets those that ended. Follows line.
-- KEYS    condition
-- returns how many it notified
-- If a command is denied: nothing was changed, or fewer were notified; what is denied raises.
local function keep(ms) redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ms or ends - now + 60000)) end
local function wake(count, channel)
  local notified = 0
  for _, entry in ipairs(line) do
    if notified >= count then break end
    if entry.notified == '0' then
      entry.notified, notified = '1', notified + 1
      put(entry)
      redis.pcall('PUBLISH', channel .. string.match(entry.owner, '^[^:]*'), 'refresh ' .. entry.owner)
    end
  end
  for _, owner in ipairs(ended) do if not line[owner] then drop(owner) end end
  return notified
end
