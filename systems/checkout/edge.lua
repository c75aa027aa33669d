-- Two token buckets, of a user and of an address: a request needs a token of each, or takes none.
-- KEYS: their hashes. ARGV: rate and burst of the first, rate and burst of the second.
-- Returns the time at which it passed in microseconds, 0 if it did not. The clock is that of Redis.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local left = {}
for i = 1, 2 do
  local rate, burst = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local had = redis.call('HMGET', KEYS[i], 'tokens', 'at')
  local tokens = burst
  if had[1] then tokens = math.min(burst, had[1] + math.max(0, now - had[2]) * rate / 1000000) end
  if tokens < 1 then return 0 end
  left[i] = tokens - 1
end
for i = 1, 2 do
  local rate, burst = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  redis.call('HSET', KEYS[i], 'tokens', string.format('%.6f', left[i]), 'at', string.format('%d', now))
  -- A bucket that is full again need not be remembered.
  if rate > 0 then redis.call('PEXPIRE', KEYS[i], math.ceil(burst / rate * 1000) + 1000) end
end
return string.format('%d', now)
