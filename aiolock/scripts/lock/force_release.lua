-- force_release: ends a hold, whoever has it, tells its manager, and grants to the next in line.
-- KEYS    state, queue, alive
-- ARGV    fence (0: any), channel of managers; where waiters race: channel to announce that it is free
-- returns 1 | 0 (already free, or held with another fence)
-- Leaves the name abandoned: the next is told `abandoned`.
-- If a command is denied: see settle; messages may fail.
local name = read(1)
if not name.live or (ARGV[1] ~= '0' and ARGV[1] ~= name.fence) then return 0 end
local holder, fence = name.owner, name.fence
vacate(name, '1')
if (settle(name, ARGV[2], nil, '0') or '') == '' then write(name) end
redis.pcall('PUBLISH', ARGV[2] .. string.match(holder, '^[^:]*'), 'revoked ' .. holder .. ' ' .. fence)
if ARGV[3] then redis.pcall('PUBLISH', ARGV[3], 'force ' .. fence) end
return 1
