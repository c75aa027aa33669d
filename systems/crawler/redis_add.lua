-- Makes pages known. ARGV: prefix, the most pages of a host, pages as JSON.
local most = tonumber(ARGV[2])
local woken = {}
for _, f in ipairs(cjson.decode(ARGV[3])) do
  if redis.call('HEXISTS', pages, f.URL) == 0 then
    local host = host_of(f.Host) or {ip = f.IP, pages = 0, failures = 0, not_before = 0, rules_at = 0,
      rules = ''}
    if host.pages < most or f.Op ~= '0' then
      host.pages = host.pages + 1
      redis.call('HSET', hosts, f.Host, cjson.encode(host))
      redis.call('HSET', pages, f.URL, cjson.encode({State = 'waiting', Priority = f.Priority,
        Hops = f.Hops, Tries = 0, Failed = 0, Fetched = 0, Status = 0, Hash = '', EveryMS = 0}))
      redis.call('ZADD', waits(f.IP, f.Priority), now, f.URL)
      redis.call('INCR', left)
      woken[f.IP] = true
    end
  end
  if f.Op ~= '0' then redis.call('HSETNX', KEYS[6], f.Op, f.URL) end
end
for ip in pairs(woken) do
  -- One that is leased, or rests, is due then; in an earlier call it was laid to its next page. A score
  -- is never made lower than the rest that is noted beside it.
  local rest = tonumber(redis.call('HGET', fences, 'rest:' .. ip) or '0')
  lay(ip, rest)
end
return 1
