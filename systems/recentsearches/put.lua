-- Puts a list in the place of an older one. KEYS is the list, ARGV its version, its text, which begins
-- with that, and how many milliseconds it stays.
local was = redis.call('GET', KEYS[1])
if was and tonumber(string.match(was, '^%d+')) >= tonumber(ARGV[1]) then
    return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
