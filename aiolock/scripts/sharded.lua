-- sharded: what precedes each script on a node of a cluster: a message for a manager that hears it on this node by
-- sharded pub/sub goes that way, and not to all nodes.
-- KEYS    the first has the hash tag of all
-- A channel without a hash tag is that of one manager; its sharded one ends in ':' and the tag.
-- If a command is denied, or unknown as in Redis 6: the message goes to all nodes.
local server = redis
local redis = { call = server.call }
function redis.pcall(command, ...)
  local first, second = ...
  local channel = command == 'PUBLISH' and first or first == 'NUMSUB' and second
  if channel and not string.find(channel, '{', 1, true) then
    local own = channel .. ':' .. string.match(KEYS[1], '{.-}')
    local heard = server.pcall('PUBSUB', 'SHARDNUMSUB', own)
    if (heard[2] or 0) > 0 then
      if command ~= 'PUBLISH' then return heard end
      local told = server.pcall('SPUBLISH', own, second)
      if type(told) == 'number' then return told end
    end
  end
  return server.pcall(command, ...)
end
