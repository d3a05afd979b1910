-- release: lowers an owner's depth; at 0 it leaves the name and its queue, and the next in line is granted the name.
-- KEYS    state, queue, alive; tombstone of the owner, if ARGV has more than 3 words
-- ARGV    owner, clean state ttl ms, channel of managers; if not 'clean', 0, 0, '', -1: ending ('clean', 'undone',
--         'dirty', 'declined'), depth left, tombstone ttl ms (0: none), channel to announce the release; if the name
--         stays taken: how many ms of its time end with it, and for how many ms from now it stays so at most
-- returns 'released <fence>', and ' heard' if somebody listens for it | 'kept <pttl>' | 'missing <deleted or taken_over>'
-- 'undone' passes on what the owner was told as abandoned; 'dirty' leaves the name marked as abandoned; 'declined' does
-- as 'undone', but ends only what the queue granted and nobody has asked for. A name that stays taken is that of an
-- owner `<owner>=`, whom no request names, so a copy of this one knows it.
-- If a command is denied: see settle; the owner holds, or is gone. What follows may fail.
local name, ending, left, kept = read(1), ARGV[4] or 'clean', tonumber(ARGV[5] or 0), owner .. '='
local fence, answer, cut = name.fence, nil, tonumber(ARGV[8] or '')
local ends = cut and math.min(name.expires - cut, now + ARGV[9]) or 0
if name.owner == kept and left == 0 then
  answer = 'released ' .. fence
elseif name.owner ~= owner or (ending == 'declined' and name.depth ~= '0') then
  if left == 0 then redis.call('ZREM', KEYS[2], owner) end
  answer = name.live and 'missing taken_over' or 'missing deleted'
elseif left > 0 then
  name.depth = left < tonumber(name.depth) and ARGV[5] or name.depth
  write(name)
  answer = string.format('kept %.0f', math.max(0, name.expires - now))
else
  local abandoned = ending == 'clean' and '0' or ending == 'dirty' and '1' or name.abandoned
  if ends > now then
    name.owner, name.depth, name.abandoned, name.expires = kept, '0', abandoned, ends
    write(name)
    local head = redis.call('ZRANGE', KEYS[2], 0, 0)[1] -- it waits until then, instead of for the ttl
    if head then redis.pcall('PUBLISH', ARGV[3] .. string.match(head, '^[^:]*'), 'refresh ' .. head) end
  else
    vacate(name, abandoned)
    if (settle(name, ARGV[3], nil, '0') or '') == '' then
      write(name, name.abandoned == '0' and ARGV[2] or math.max(86400000, ARGV[2]))
    end
  end
  local heard = (ARGV[7] or '') ~= '' and redis.pcall('PUBLISH', ARGV[7], owner .. ' ' .. fence) ~= 0
  answer = 'released ' .. fence .. (heard and ' heard' or '')
end
if left == 0 and (ARGV[6] or '0') ~= '0' then redis.pcall('SET', KEYS[4], 1, 'PX', ARGV[6]) end
return answer
