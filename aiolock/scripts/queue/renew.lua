-- renew: extends many holds; judges each by itself, and lets in whoever may come next.
-- KEYS    name (5); repeated
-- ARGV    channel before, after; then owner, fence, ttl ms, capacity, weight; repeated
-- returns a list of pttl | 'deleted' | 'taken_over' | 'error …'
-- Never creates a holder and never shortens; a state that was lost under a live hold is written again.
-- If a command is denied: that hold's answer is the error, and the others are renewed.
local function renew(k, a)
  local owner, fence, ttl = ARGV[a], ARGV[a + 1], tonumber(ARGV[a + 2])
  local name = open(k, ARGV[a + 3])
  settle(name)
  local count, _, _, token = read(name, owner)
  if count == '0' then return gone(name, ARGV[a + 4]) end
  if token ~= fence then return 'taken_over' end
  return extend(name, owner, ttl, fence)
end
return each(renew, 5, 5, 3)
