-- ends: what becomes of one name when a level of its owner ends, and what when the last one has.
-- KEYS    lock, state; from where its part was read
-- ARGV    the release's: the fourth is the clean state ttl ms
-- returns nothing | how many managers listen for the name
-- If a command is denied: the first raises and leaves the name as it was; the second tries, and needs none.
local function lower(one, owner, left)
  -- PEXPIRE before HSET: at the memory limit the first write decides.
  if one.pttl > 0 then redis.call('PEXPIRE', KEYS[one.at], string.format('%.0f', one.pttl)) end
  if left < one.count then redis.call('HSET', KEYS[one.at], owner, left) end
end
local function tell(one, owner, ending)
  if one.owner == owner and (ending == 'clean' or (ending == 'undone' and one.abandoned == '0')) then
    redis.pcall('HSET', KEYS[one.at + 1], 'clean', 1)
    redis.pcall('PEXPIRE', KEYS[one.at + 1], ARGV[4])
  end
  local listeners = redis.pcall('PUBLISH', one.channel, owner .. ' ' .. (one.fence or '0'))
  return type(listeners) == 'number' and listeners or 1
end
