-- permits_info: counts the permits that are free and those that are taken. Follows now.
-- KEYS    how many are free, ids
-- returns {free, taken}
-- What has expired is free, and stays for the next acquisition to give back.
-- If a command is denied: nothing is changed anyway.
local over = redis.call('ZCOUNT', KEYS[2], 0, string.format('%.0f', now))
return { (redis.call('GET', KEYS[1]) or 0) + over, redis.call('ZCARD', KEYS[2]) - over }
