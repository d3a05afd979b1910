-- holders: how the owners of a name come, change and end. Follows record.lua.
-- A holder that minted a fence and did not end cleanly leaves it `abandoned`.
-- If a command is denied: it reads only, so nothing was changed.
local function score(state, owner, ends)
  local scores, at = state.scores, text(ends)
  if not scores then state.scores = { at, owner, [owner] = ends } return end
  scores[owner], scores[#scores + 1], scores[#scores + 2] = ends, at, owner
end
local function grant(state, owner, depth, ttl, weight, mints, floor, process)
  local abandoned, highest, fence = state.abandoned, tonumber(floor), state.fence
  if highest >= 2 ^ 53 then highest = 0 end -- no fence is that great
  local serial, token = math.max(state.serial + 1, NOW_US), math.max(fence + 1, highest + 1, NOW_US)
  state.serial, state.process = text(serial), process
  if mints == '1' or fence == '0' then fence = token == serial and state.serial or text(token) end
  if mints == '1' then state.abandoned = '0' end
  state.longest = math.max(state.holders + state.waiters > 0 and state.longest or 0, ttl)
  state.fence, state.used, state.holders = fence, state.used + weight, state.holders + 1
  hold(state, owner, depth, weight, mints, fence, abandoned, process)
  score(state, owner, clock(state) + ttl)
  return { 'granted', fence, ttl, abandoned, state.capacity }
end
local function drop(state, owner, weight, abandoned)
  state.used, state.holders = state.used - weight, state.holders - 1
  if abandoned then state.abandoned = '1' end
  remove(state, owner)
end
-- What an owner that has ended leaves: it holds nothing for anyone, and its end marks nothing.
local function keep(state, owner, ends, weight, fence, process)
  state.used, state.holders = state.used + weight, state.holders + 1
  hold(state, owner, '0', weight, '0', fence, '0', process)
  score(state, owner, ends)
end
local function extend(state, owner, ttl)
  local now, stored = clock(state), state.scores and state.scores[owner] or redis.call('ZSCORE', state.order, owner) or 0
  local ends = math.max(now + ttl, stored)
  state.longest = math.max(state.longest, ttl)
  score(state, owner, ends)
  return ends - now
end
