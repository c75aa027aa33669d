-- What every script of redis_frontier begins with. Times are milliseconds of Redis's clock, which cjson
-- writes exactly. KEYS: pages, hosts, due, fences, left, seeds, bodies. ARGV[1] is the prefix of the
-- pages that wait, by address and class of priority.
local pages, hosts, due, fences, left = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function waits(ip, class) return ARGV[1] .. ip .. ':' .. class end

local function host_of(name)
  local raw = redis.call('HGET', hosts, name)
  return raw and cjson.decode(raw)
end

-- lay says when an address may be asked again, not before a time.
local function lay(ip, least)
  local at = nil
  local known = {}
  for class = 0, 2 do
    local list = redis.call('ZRANGE', waits(ip, class), 0, -1, 'WITHSCORES')
    for i = 1, #list, 2 do
      local name = string.match(list[i], '^http://([^/]+)')
      known[name] = known[name] or host_of(name)
      local when = math.max(tonumber(list[i + 1]), known[name].not_before)
      if not at or when < at then at = when end
    end
  end
  if at then
    redis.call('ZADD', due, math.max(at, least), ip)
  else
    redis.call('ZREM', due, ip)
  end
end
