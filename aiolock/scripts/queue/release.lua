-- release: lowers an owner's depth; at 0 it leaves the name and its queue, and the next in line is granted the name.
-- KEYS    name (2), tombstone of the owner
-- ARGV    channel of managers, owner, depth left, weight left, mints left, ending ('clean', 'undone', 'dirty',
--         'declined'), clean state ttl ms, tombstone ttl ms (0: none), capacity; if it stays taken for the rest of its time: how
--         many ms of that end with it
-- returns {'released', fence} | {'kept', pttl} | {'missing', 'deleted' or 'taken_over'}
-- 'undone' restores the mark it found, 'dirty' leaves the name `abandoned`; 'declined' does as 'undone', but
-- ends only what the queue granted and nobody has renewed. A lower weight (write -> read) lets in those that it kept out.
-- What stays taken is like a grant that nobody has renewed, so a copy of the request knows it.
-- If a command is denied: see close.lua; the owner is gone with everything it held, or still has all of it.
local owner, left, ending = ARGV[2], tonumber(ARGV[3]), ARGV[6]
local state = open(1, ARGV[9], { owner })
local count, weight, mints, fence, abandoned, process = holder(state, owner)
local score_of = count and ARGV[10] and redis.call('ZSCORE', state.order, owner)
local answer, ends = nil, score_of and score_of - (count == '0' and 0 or ARGV[10]) or 0
if not count or (ending == 'declined' and count ~= '0') then
  if waiter(state, owner) then leave(state, owner) end
  answer = { 'missing', gone(state, ARGV[4]) }
elseif left > 0 then
  answer = { 'kept', extend(state, owner, 0) }
  local still = math.min(weight, ARGV[4])
  state.used = state.used - weight + still
  mints = mints == '1' and ARGV[5] or '0'
  hold(state, owner, text(math.min(count, left)), text(still), mints, fence, abandoned, fewer(process, still))
elseif ends > 0 and ends > clock(state) then
  local unclean = mints == '1' and ending ~= 'clean' and '1' or '0' -- whether its end leaves the name `abandoned`
  hold(state, owner, '0', weight, unclean, fence, abandoned, process)
  score(state, owner, ends)
  local head = redis.call('ZRANGEBYSCORE', state.order, FIRST, '+inf', 'LIMIT', 0, 1)[1]
  if head then tell(state, head, 'refresh', head) end -- it waits until then, instead of for the ttl
  answer = { 'released', fence }
else
  drop(state, owner, weight, mints == '1' and (ending == 'dirty' or (ending ~= 'clean' and abandoned == '1')))
  answer = { 'released', fence }
end
settle(state)
close(state, ARGV[7])
if left == 0 and ARGV[8] ~= '0' then redis.pcall('SET', KEYS[3], 1, 'PX', ARGV[8]) end
return answer
