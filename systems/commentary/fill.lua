-- Makes a copy of a match, unless there is a newer one.
-- KEYS: as of put.lua. ARGV: the version, how long the copy lasts in milliseconds, and ids and
-- comments.
if tonumber(redis.call('GET', KEYS[2]) or -1) > tonumber(ARGV[1]) then
    return 0
end
redis.call('DEL', KEYS[1])
for i = 3, #ARGV, 2 do
    redis.call('ZADD', KEYS[1], ARGV[i], ARGV[i + 1])
end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
