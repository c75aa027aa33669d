-- Stores what a job has led to, if its fence is the last one. ARGV: prefix, the result as JSON, a hash
-- and its body or ''.
local r = cjson.decode(ARGV[2])
if tonumber(redis.call('HGET', fences, r.ip) or '-1') ~= r.fence then return 0 end
redis.call('HINCRBY', fences, r.ip, 1)
if ARGV[3] ~= '' then redis.call('HSETNX', KEYS[7], ARGV[3], ARGV[4]) end
local host = host_of(r.host)
if host then
  host.failures, host.not_before = r.failures, now + r.quarantine
  if r.rules ~= '' then host.rules, host.rules_at, host.delay = r.rules, now, r.delay end
  redis.call('HSET', hosts, r.host, cjson.encode(host))
end
for _, o in ipairs(r.pages) do
  local raw = redis.call('HGET', pages, o.url)
  if raw then
    local p = cjson.decode(raw)
    p.state, p.status, p.hash, p.every = o.state, o.status, o.hash, o.every
    if o.kept then
      p.fetched, p.tries = p.fetched + 1, 0
    elseif o.asked then
      p.failed, p.tries = p.failed + 1, p.tries + 1
    end
    if o.state == 'waiting' then
      redis.call('ZADD', waits(r.ip, p.priority), now + o.again, o.url)
    elseif redis.call('ZREM', waits(r.ip, p.priority), o.url) == 1 then
      redis.call('DECR', left)
    end
    redis.call('HSET', pages, o.url, cjson.encode(p))
  end
end
redis.call('HSET', fences, 'rest:' .. r.ip, now + r.rest)
lay(r.ip, now + r.rest)
return 1
