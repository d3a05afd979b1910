-- append: KEYS[1] list; ARGV[1] value; returns the list's length.
return redis.call('RPUSH', KEYS[1], ARGV[1])
