-- sharded: what precedes each script on a node of a cluster: a message that is heard on this node by sharded pub/sub goes
-- that way, and not to all nodes.
-- KEYS    the first has the hash tag of all
-- A channel without a hash tag is that of one manager; its sharded one ends in ':' and the tag. One with a tag is shared:
-- clients that are not ours hear it one way or the other, ours both. So if some hear it only as it is, it goes both ways.
-- If a command is denied, or unknown as in Redis 6: the message goes to all nodes.
local server = redis
local redis = { call = server.call }
local function heard(how, channel) return server.pcall('PUBSUB', how, channel)[2] end
local function tell(channel, message)
  local told = server.pcall('SPUBLISH', channel, message)
  return type(told) == 'number' and told
end
function redis.pcall(command, ...)
  local first, second = ...
  local channel = command == 'PUBLISH' and first or first == 'NUMSUB' and second
  if channel and not string.find(channel, '{', 1, true) then
    local own = channel .. ':' .. string.match(KEYS[1], '{.-}')
    local nearby = heard('SHARDNUMSUB', own) or 0
    if nearby > 0 and command ~= 'PUBLISH' then return { own, nearby } end
    local told = nearby > 0 and tell(own, second)
    if told then return told end
  elseif command == 'PUBLISH' then
    local told = tell(first, second)
    if told and (heard('NUMSUB', first) or math.huge) <= (heard('SHARDNUMSUB', first) or 0) then return told end
  end
  return server.pcall(command, ...)
end
