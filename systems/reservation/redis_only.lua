-- Everything that redis_only does, in one script. Times are nanoseconds; since Lua has doubles
-- only, they are texts, made of microseconds. So are operation identities.
local holds, due, changes, free = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function micros(n) return string.format('%.0f', n) end
local function nanos(n) return micros(n) .. '000' end

-- A hold is kept as the JSON of a row of the audit, in which identities and times are numbers
-- with too many digits for Lua: they are kept as texts here and written without quotes.
local function write(h)
  redis.call('HSET', holds, h.hold_id, string.format(
    '{"hold_id":%s,"resource":%s,"unit":0,"first":%d,"nights":%d,"guest":%s,"state":"%s",' ..
    '"version":%d,"held_ns":%s,"confirm_op":%s,"confirmed_ns":%s,"end_op":%s,"ended_ns":%s}',
    h.hold_id, h.resource, h.first, h.nights, cjson.encode(h.guest), h.state, h.version, h.held_ns,
    h.confirm_op, h.confirmed_ns, h.end_op, h.ended_ns))
end

local function read(id)
  local text = redis.call('HGET', holds, id)
  if not text then return nil end
  local h = cjson.decode(text)
  for _, name in ipairs({'hold_id', 'resource', 'held_ns', 'confirm_op', 'confirmed_ns', 'end_op', 'ended_ns'}) do
    h[name] = string.match(text, '"' .. name .. '":(%d+)')
  end
  return h
end

local function log(h, before)
  local seq = redis.call('LLEN', changes) + 1
  redis.call('RPUSH', changes, string.format(
    '{"seq":%d,"hold_id":%s,"before":"%s","state":"%s","version":%d,"at_ns":%s}',
    seq, h.hold_id, before, h.state, h.version, nanos(now)))
end

local function give(h)
  for night = h.first, h.first + h.nights - 1 do
    redis.call('HINCRBY', free, h.resource .. ':' .. string.format('%d', night), 1)
  end
end

local function change(h, state)
  local before = h.state
  h.state, h.version = state, h.version + 1
  if state == 'confirmed' then h.confirmed_ns = nanos(now) else h.ended_ns = nanos(now) end
  if before == 'held' then redis.call('ZREM', due, h.hold_id) end
  if state ~= 'confirmed' then give(h) end
  write(h)
  log(h, before)
end

local what = ARGV[1]

if what == 'expire' then
  local over = redis.call('ZRANGEBYSCORE', due, '-inf', micros(now), 'LIMIT', 0, ARGV[2])
  for _, id in ipairs(over) do change(read(id), 'expired') end
  return {'ok', #over}
end

if what == 'held' then
  local id, resource, first, nights = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
  if redis.call('HEXISTS', holds, id) == 1 then return {'ok', 1} end
  for night = first, first + nights - 1 do
    local left = redis.call('HGET', free, resource .. ':' .. string.format('%d', night))
    if tonumber(left) < 1 then return {'sold_out', 0} end
  end
  for night = first, first + nights - 1 do
    redis.call('HINCRBY', free, resource .. ':' .. string.format('%d', night), -1)
  end
  local h = {hold_id = id, resource = resource, first = first, nights = nights, guest = ARGV[6],
    state = 'held', version = 1, held_ns = nanos(now), confirm_op = '0', confirmed_ns = '0',
    end_op = '0', ended_ns = '0'}
  redis.call('ZADD', due, micros(now + ARGV[7]), id)
  write(h)
  log(h, '')
  return {'ok', 1}
end

local op, id, guest, resource, version, from = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), ARGV[7]
local h = read(id)
if not h or h.guest ~= guest or h.resource ~= resource then return {'unknown_hold', 0} end
local by = what == 'confirmed' and 'confirm_op' or 'end_op'
if h[by] == op then return {'ok', version + 1} end
local over = h.state == 'held' and what == 'confirmed' and now >= tonumber(redis.call('ZSCORE', due, id))
if h.state == 'expired' or over then return {'expired', 0} end
if h.state ~= from or h.version ~= version then return {'not_open', 0} end
h[by] = op
change(h, what)
return {'ok', h.version}
