-- settle: gives a free name to the first in its queue that lives and hears. Follows crowd.
-- `channel` is that of managers, without their ids; `me` is the owner that asks, if it needs no message.
-- KEYS    state, queue, alive; from KEYS[at]
-- returns that one, with its grant written and announced; or `me`, whose request this is: it is first, and has to be
--         granted and taken from the queue; or nil, no one is; or '', unknown yet: too many are dead or do not hear
-- It has the name while its manager counts as alive, at most for the ms that its id ends with. A dead entry leaves the
-- queue; one that lives but does not hear is passed over, and keeps its place: but see crowd.
-- If a command is denied: PUBLISH and PUBSUB count as heard. ZREM: who was told leaves the queue when it ends.
local function settle(name, channel, me, floor)
  local queue, alive, deaf, answer = KEYS[name.at + 1], KEYS[name.at + 2], {}, ''
  for _ = 1, 1000 do
    local entry, number = unpack(redis.call('ZRANGE', queue, #deaf, #deaf, 'WITHSCORES'))
    if not entry or entry == me then
      answer = entry
      break
    end
    local manager = string.match(entry, '^[^:]*')
    local known, counted, process = string.match(redis.call('HGET', alive, manager) or '0', '^(%d+)(%+?) ?(.*)$')
    if tonumber(known) <= now or entry == name.ended then
      redis.call('ZREM', queue, entry)
    elseif counted ~= '' and redis.pcall('PUBSUB', 'NUMSUB', channel .. manager)[2] == 0 then
      deaf[#deaf + 1] = entry -- announced, it would still be heard at replicas and other nodes
    else
      local most = math.min(known, now + (string.match(entry, '~(%d+)$') or math.huge))
      grant(name, entry, '0', most, process, floor, number) -- before it is announced: the new holder asks at once
      local told = string.format('granted %s %s %s ', entry, name.fence, name.abandoned) .. KEYS[name.at]
      if redis.pcall('PUBLISH', channel .. manager, told) ~= 0 or counted == '' then
        redis.call('ZREM', queue, entry)
        return entry
      end
      deaf[#deaf + 1] = entry
    end
  end
  if answer == '' then disperse(name, channel, deaf) end
  if name.live then
    vacate(name, name.abandoned)
    write(name)
  end
  return answer
end
