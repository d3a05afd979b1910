-- echo: KEYS none; ARGV[1] text; returns it.
return ARGV[1]
