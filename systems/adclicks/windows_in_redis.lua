-- Stores the state of a partition if nobody else has moved it on, with what is to be copied, and
-- forgets fields whose windows are too old.
-- KEYS: offsets, seen, farms, windows, ages, outbox. ARGV: from, next, max_ms, oldest, outbox
-- entry, and then the number of a hash, the end of a window, a field and a value, again and again.
if (redis.call('HGET', KEYS[1], 'next') or '0') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'next', ARGV[2], 'max_ms', ARGV[3])
for i = 6, #ARGV, 4 do
  redis.call('HSET', KEYS[tonumber(ARGV[i])], ARGV[i + 2], ARGV[i + 3])
  redis.call('ZADD', KEYS[5], ARGV[i + 1], ARGV[i] .. ARGV[i + 2])
end
for _, old in ipairs(redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', ARGV[4])) do
  redis.call('HDEL', KEYS[tonumber(string.sub(old, 1, 1))], string.sub(old, 2))
end
redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', ARGV[4])
redis.call('RPUSH', KEYS[6], ARGV[5])
return 1
