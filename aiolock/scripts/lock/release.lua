-- release: lowers an owner's depth; at 0 it leaves the name and its queue, and the next in line is granted the name.
-- KEYS    state, queue, alive; tombstone of the owner, if ARGV has more than 3 words
-- ARGV    owner, clean state ttl ms, channel of managers; if not 'clean', 0, 0, '', -1: ending ('clean', 'undone',
--         'dirty', 'declined'), depth left, tombstone ttl ms (0: none), channel to announce the release, ms of its
--         time that end with it, as the name stays taken for the rest (below 0: all)
-- returns 'released <fence>', and ' heard' if somebody listens for it | 'kept <pttl>' | 'missing <deleted or taken_over>'
-- 'undone' passes on what the owner was told as abandoned; 'dirty' leaves the name marked as abandoned; 'declined' does
-- as 'undone', but ends only what the queue granted and nobody has asked for. A name that stays taken is like a
-- grant that nobody has asked for, so a copy of the request knows it.
-- If a command is denied: see settle; the owner holds, or is gone. What follows may fail.
local name, ending, left = read(1), ARGV[4] or 'clean', tonumber(ARGV[5] or 0)
local fence, answer, cut = name.fence, nil, tonumber(ARGV[8] or -1)
local ends = cut < 0 and 0 or name.expires - (name.depth == '0' and 0 or cut)
if name.owner ~= owner or (ending == 'declined' and name.depth ~= '0') then
  if left == 0 then redis.call('ZREM', KEYS[2], owner) end
  answer = name.live and 'missing taken_over' or 'missing deleted'
elseif left > 0 then
  if left < tonumber(name.depth) then name.depth = ARGV[5] end
  write(name)
  answer = string.format('kept %.0f', math.max(0, name.expires - now))
else
  local abandoned = ending == 'clean' and '0' or ending == 'dirty' and '1' or name.abandoned
  if ends > now then
    name.depth, name.abandoned, name.expires = '0', abandoned, ends
    write(name)
    local head = redis.call('ZRANGE', KEYS[2], 0, 0)[1] -- it waits until then, instead of for the ttl
    if head then redis.pcall('PUBLISH', ARGV[3] .. string.match(head, '^[^:]*'), 'refresh ' .. head) end
  else
    vacate(name, abandoned)
    if (settle(name, ARGV[3], nil, '0') or '') == '' then
      write(name, name.abandoned == '0' and ARGV[2] or math.max(86400000, ARGV[2]))
    end
  end
  answer = 'released ' .. fence
  if (ARGV[7] or '') ~= '' and redis.pcall('PUBLISH', ARGV[7], owner .. ' ' .. fence) ~= 0 then
    answer = answer .. ' heard'
  end
end
if left == 0 and (ARGV[6] or '0') ~= '0' then redis.pcall('SET', KEYS[4], 1, 'PX', ARGV[6]) end
return answer
