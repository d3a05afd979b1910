-- holders: whether the owner is a holder with at least its weight. Follows queue/record and queue/clock.
-- KEYS    last write, hash, order
-- ARGV    as write
-- If a command is denied: it reads only, so nothing was changed.
local function held()
  local state = read_state(2, '0', { ARGV[1] })
  local _, weight, _, fence = holder(state, ARGV[1])
  local ends = weight and fence == ARGV[2] and tonumber(weight) >= tonumber(ARGV[5]) and redis.call('ZSCORE', KEYS[3], ARGV[1])
  return ends and tonumber(ends) > clock(state)
end
