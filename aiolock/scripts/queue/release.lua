-- release: lowers an owner's depth; at 0 it leaves the name and its queue, and the next in line is granted the name.
-- KEYS    name (2), tombstone of the owner
-- ARGV    channel of managers, owner, depth left, weight left, mints left, ending ('clean', 'undone', 'dirty',
--         'declined'), clean state ttl ms, tombstone ttl ms (0: none), capacity; if the name stays taken: how many ms
--         of its time end with it, and for how many ms from now it stays so at most
-- returns {'released', fence} | {'kept', pttl} | {'missing', 'deleted' or 'taken_over'}
-- 'undone' restores the mark it found, 'dirty' leaves the name `abandoned`; 'declined' does as 'undone', but ends only
-- what the queue granted and nobody has renewed. A lower weight (write -> read) lets in those that it kept out. What
-- stays taken is that of an owner `<owner>=`, whom no request names, so a copy of this one knows it.
-- If a command is denied: see close.lua; the owner is gone, or still has all of it.
local owner, left, ending, kept = ARGV[2], tonumber(ARGV[3]), ARGV[6], ARGV[2] .. '='
local state = open(1, ARGV[9], { owner, kept })
local count, weight, mints, fence, abandoned, process = holder(state, owner)
local score_of = count and ARGV[10] and redis.call('ZSCORE', state.order, owner)
local ends = score_of and math.min(score_of - ARGV[10], clock(state) + ARGV[11]) or 0
local again, answer = left == 0 and select(4, holder(state, kept)), nil
if again then
  answer = { 'released', again }
elseif not count or (ending == 'declined' and count ~= '0') then
  if waiter(state, owner) then leave(state, owner) end
  answer = { 'missing', gone(state, ARGV[4]) }
elseif left > 0 then
  answer = { 'kept', extend(state, owner, 0) }
  local still = math.min(weight, ARGV[4])
  state.used, mints = state.used - weight + still, mints == '1' and ARGV[5] or '0'
  hold(state, owner, text(math.min(count, left)), text(still), mints, fence, abandoned, fewer(process, still))
else
  drop(state, owner, weight, mints == '1' and (ending == 'dirty' or (ending ~= 'clean' and abandoned == '1')))
  if ends > clock(state) then
    keep(state, kept, ends, weight, fence, process)
    local head = redis.call('ZRANGEBYSCORE', state.order, FIRST, '+inf', 'LIMIT', 0, 1)[1]
    if head then tell(state, head, 'refresh', head) end -- it waits until then, instead of for the ttl
  end
  answer = { 'released', fence }
end
settle(state)
close(state, ARGV[7])
if left == 0 and ARGV[8] ~= '0' then redis.pcall('SET', KEYS[3], 1, 'PX', ARGV[8]) end
return answer
