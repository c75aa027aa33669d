-- Leases addresses. ARGV: prefix, how many, the lease, the delay, candidates of a job.
local jobs = {}
for _, ip in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, ARGV[2])) do
  local name, host, list = nil, nil, {}
  local delay = tonumber(ARGV[4])
  for class = 0, 2 do
    for _, url in ipairs(redis.call('ZRANGEBYSCORE', waits(ip, class), '-inf', now)) do
      local of = string.match(url, '^http://([^/]+)')
      if #list < tonumber(ARGV[5]) and (not name or name == of) then
        local h = host or host_of(of)
        if h.not_before <= now then
          name, host = of, h
          local page = cjson.decode(redis.call('HGET', pages, url))
          page.URL = url
          list[#list + 1] = page
        end
      end
    end
  end
  if not name then
    lay(ip, now + 1)
  else
    local fence = redis.call('HINCRBY', fences, ip, 1)
    if host.delay and host.delay > delay then delay = host.delay end
    local free = now + tonumber(ARGV[3]) + delay + 1
    redis.call('HSET', fences, 'rest:' .. ip, free)
    redis.call('ZADD', due, free, ip)
    jobs[#jobs + 1] = {IP = ip, Host = name, Fence = fence, Failures = host.failures, Text = host.rules,
      Age = now - host.rules_at, Pages = list}
  end
end
if #jobs == 0 then return '[]' end
return cjson.encode(jobs)
