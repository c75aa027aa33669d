-- Everything that redis_lease does with a key, in one script. Times and fences are microseconds
-- of Redis' clock, as texts: Lua has doubles only.
local key, open = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function micros(n) return string.format('%.0f', n) end

local what, name = ARGV[1], ARGV[2]

if what == 'begin' then
  local print, lease, again, note = ARGV[3], ARGV[4], 0, ''
  local h = redis.call('HMGET', key, 'fingerprint', 'state', 'until', 'note', 'status', 'type', 'answer')
  if h[1] then
    if h[1] ~= print then return {'other_body'} end
    if h[2] == 'done' then return {'done', h[5], h[6], h[7]} end
    if tonumber(h[3]) > now then return {'in_progress'} end
    again, note = 1, h[4] or ''
  end
  redis.call('HSET', key, 'fingerprint', print, 'fence', micros(now), 'until', micros(now + lease),
    'key', name, 'op_id', ARGV[5], 'method', ARGV[6], 'path', ARGV[7], 'body', ARGV[8])
  redis.call('HSETNX', key, 'state', 'started')
  redis.call('ZADD', open, micros(now + lease), name)
  return {'mine', micros(now), again, note}
end

if what == 'given_up' then
  return redis.call('ZRANGEBYSCORE', open, '-inf', micros(now), 'LIMIT', 0, ARGV[3])
end

-- What follows is for the claim with the fence alone.
local h = redis.call('HMGET', key, 'fence', 'state')
if h[1] ~= ARGV[3] or h[2] == 'done' then return {'lost'} end

if what == 'note' then
  redis.call('HSET', key, 'state', 'charged', 'note', ARGV[4])
elseif what == 'abandon' then
  redis.call('HSET', key, 'until', micros(now))
  redis.call('ZADD', open, micros(now), name)
elseif what == 'finish' then
  redis.call('HSET', key, 'state', 'done', 'status', ARGV[4], 'type', ARGV[5], 'answer', ARGV[6],
    'done', micros(now) .. '000')
  redis.call('PEXPIRE', key, ARGV[7])
  redis.call('ZREM', open, name)
end
return {'ok'}
