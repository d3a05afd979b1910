-- acquire: grants all names to one owner under one fence, or none, and says which of them somebody holds.
-- KEYS    tombstone of the owner; then lock, state, mark of those who poll; repeated
-- ARGV    owner, ttl ms, depth, fence (0: not nested), floor, metadata, state ttl ms, mark ttl ms (0: does not poll);
--         then the names
-- returns 'granted <fence> <pttl> <abandoned>' | {'refused', pttl, fence, metadata, name}
--         | {'lost', 'deleted' or 'taken_over'} | {'finished'}
-- Only depth 1 creates, for an owner that has none of the names; nothing shortens; a copy reads its own grant.
-- If a command is denied: every state is written before any lock, so at worst fences are left that nobody holds.
local owner, ttl, depth = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('EXISTS', KEYS[1]) == 1 then return {'finished'} end
local seen = read_all(owner, ARGV[4], tonumber(ARGV[5]))
if seen.gone and (seen.mine > 0 or depth > 1) then return {'lost', seen.gone} end
local blocker = seen[seen.blocker]
if blocker then
  if ARGV[8] ~= '0' then redis.pcall('SET', KEYS[blocker.at + 2], 1, 'PX', ARGV[8]) end
  local highest = string.format('%.0f', seen.highest)
  return {'refused', seen.wait, highest, blocker.metadata or '', ARGV[8 + seen.blocker]}
end
local fence, abandoned, pttl = seen.fence, '0', math.huge
if fence == '0' then
  local now = redis.call('TIME')
  fence = string.format('%.0f', math.max(seen.highest + 1, now[1] * 1000000 + now[2]))
end
for _, one in ipairs(seen) do
  if not (one.count and one.fence) then
    local left = (not one.count and one.clean == '0') and '1' or '0'
    local state = KEYS[one.at + 1]
    redis.call('HSET', state, 'fence', fence, 'owner', owner, 'clean', 0, 'abandoned', left, 'metadata', ARGV[6])
    redis.call('PEXPIRE', state, ARGV[7])
    one.abandoned = left
  end
  if one.abandoned == '1' then abandoned = '1' end
end
for _, one in ipairs(seen) do
  if depth > (one.count or 0) then redis.call('HSET', KEYS[one.at], owner, depth) end
  if ttl > one.pttl then redis.call('PEXPIRE', KEYS[one.at], ARGV[2]) end
  pttl = math.min(pttl, math.max(ttl, one.pttl))
end
return 'granted ' .. fence .. ' ' .. pttl .. ' ' .. abandoned
