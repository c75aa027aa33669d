-- Stores what a job has led to, if its fence is the last one. ARGV: prefix, the result as JSON, a hash
-- and its body or ''.
local r = cjson.decode(ARGV[2])
-- A time in nanoseconds, in milliseconds of a clock that has no finer ones: never less.
local function ms(time) return math.ceil(time / 1000000) + 1 end
if tonumber(redis.call('HGET', fences, r.IP) or '-1') ~= r.Fence then return 0 end
redis.call('HINCRBY', fences, r.IP, 1)
if ARGV[3] ~= '' then redis.call('HSETNX', KEYS[7], ARGV[3], ARGV[4]) end
local host = host_of(r.Host)
if host then
  host.failures, host.not_before = r.Failures, now + ms(r.Quarantine)
  if r.Text ~= '' then host.rules, host.rules_at, host.delay = r.Text, now, ms(r.Delay) end
  redis.call('HSET', hosts, r.Host, cjson.encode(host))
end
for _, o in ipairs(r.Pages ~= cjson.null and r.Pages or {}) do
  local raw = redis.call('HGET', pages, o.URL)
  if raw then
    local p = cjson.decode(raw)
    p.State, p.Status, p.Hash, p.EveryMS = o.State, o.Status, o.Hash, o.EveryMS
    if o.Kept then
      p.Fetched, p.Tries = p.Fetched + 1, 0
    elseif o.Asked then
      p.Failed, p.Tries = p.Failed + 1, p.Tries + 1
    end
    if o.State == 'waiting' then
      redis.call('ZADD', waits(r.IP, p.Priority), now + ms(o.Again), o.URL)
    elseif redis.call('ZREM', waits(r.IP, p.Priority), o.URL) == 1 then
      redis.call('DECR', left)
    end
    redis.call('HSET', pages, o.URL, cjson.encode(p))
  end
end
redis.call('HSET', fences, 'rest:' .. r.IP, now + ms(r.Rest))
lay(r.IP, now + ms(r.Rest))
return 1
