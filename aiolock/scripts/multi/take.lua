-- take: gives one name to the owner: until it has them all, or for good. Follows settle.
-- KEYS    state, queue, alive; from KEYS[at]
-- A younger owner that had reserved it goes back to its place in the queue.
-- If a command is denied: ZADD and SET, nothing was changed; ZREM, an entry stays until the owner ends.
local function take(name, depth, expires, metadata, floor)
  local queue = KEYS[name.at + 1]
  if name.younger then
    local ms = math.max(60000, 20 * liveness)
    keep(KEYS[name.at + 2], ms) -- first, so that a denial leaves no queue without an expiry
    redis.call('ZADD', queue, 'NX', name.before, name.owner)
    keep(queue, ms) -- it may be new
  end
  if name.mine and depth == '0' then
    name.expires = math.max(name.expires, expires)
    write(name)
  else
    name.minted = nil
    grant(name, owner, depth, expires, metadata, floor, depth == '0' and number or nil)
    redis.call('ZREM', queue, owner)
  end
end
-- Which of two to wait for: the older hold, which usually lasts longer. An owner that has nothing keeps
-- its place.
local function sooner(one, other, some)
  if not some and (not one.stands) ~= (not other.stands) then return one.stands end
  return tonumber(one.fence) < tonumber(other.fence)
end
