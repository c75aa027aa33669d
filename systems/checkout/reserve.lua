-- KEYS: the units of a product that are left, the holds by when they end, a count of changes.
-- ARGV: what is to be done, and its arguments. Times are those of Redis alone.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

if ARGV[1] == 'reserve' then -- a hold, its time: 1, 0 if it was there before, -1 sold out, -2 nothing is known
  local left = tonumber(redis.call('GET', KEYS[1]))
  if not left then return -2 end
  if redis.call('ZSCORE', KEYS[2], ARGV[2]) then return 0 end
  if left < 1 then return -1 end
  redis.call('DECR', KEYS[1])
  redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[2])
  redis.call('INCR', KEYS[3])
  return 1
end

if ARGV[1] == 'release' then -- a hold: its unit is left again
  if redis.call('ZREM', KEYS[2], ARGV[2]) == 1 then
    redis.call('INCR', KEYS[1])
    redis.call('INCR', KEYS[3])
  end
  return 0
end

if ARGV[1] == 'sold' then -- a hold: its unit is sold
  if redis.call('ZREM', KEYS[2], ARGV[2]) == 1 then redis.call('INCR', KEYS[3]) end
  return 0
end

-- mend, the count of changes at which the rest was decided, the units left, the holds that are none
if tostring(redis.call('GET', KEYS[3]) or '') ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[3])
redis.call('INCR', KEYS[3])
for i = 4, #ARGV do redis.call('ZREM', KEYS[2], ARGV[i]) end
return 1
