-- renew: extends many holds; judges each by itself, and lets in the next in line.
-- KEYS    name (2); repeated
-- ARGV    channel of managers; then owner, fence, ttl ms, capacity, weight; repeated
-- returns a list of pttl | 'deleted' | 'taken_over' | 'error …'
-- Never creates a holder and never shortens.
-- If a command is denied: the answer of each hold of that name is the error, and the others are renewed.
local function arrive(k, a, owners) open(k, ARGV[a + 3], owners) end
local function decide(k, a)
  local state, owner = open(k), ARGV[a]
  local count, weight, mints, token, abandoned, process = holder(state, owner)
  if not count then return gone(state, ARGV[a + 4]) end
  if token ~= ARGV[a + 1] then return 'taken_over' end
  if count == '0' then hold(state, owner, '1', weight, mints, token, abandoned, process) end
  return extend(state, owner, tonumber(ARGV[a + 2]))
end
return batch(2, 5, 2, arrive, decide, function() end)
