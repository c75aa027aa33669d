-- The jobs of a queue in Redis. KEYS[1] is the prefix of all keys, ARGV[1] what to do. A job is a
-- hash; the numbers of waiting and of running ones are in sorted sets by when that is over. Ready
-- ones are in a list, or a stream, for each tenant and priority.
local prefix, what, streams = KEYS[1], ARGV[1], ARGV[2] == 'streams'
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2] -- microseconds
local function key(name) return prefix .. name end
local function jobKey(id) return key('job:' .. id) end
local function int(n) return string.format('%.0f', n) end

local function queue(tenant, priority) return key('ready:' .. tenant .. ':' .. priority) end

local function makeReady(id)
  local j = redis.call('HMGET', jobKey(id), 'tenant', 'priority')
  redis.call('HSET', jobKey(id), 'state', 'ready')
  local q = queue(j[1], j[2])
  if not streams then
    redis.call('LPUSH', q, id) -- the other end is the front
    return
  end
  if redis.call('EXISTS', q) == 0 then redis.call('XGROUP', 'CREATE', q, 'workers', '0', 'MKSTREAM') end
  redis.call('XADD', q, '*', 'job', id)
end

-- read is what the script needs to know of a job.
local function read(id)
  local j = redis.call('HMGET', jobKey(id), 'state', 'attempts', 'tenant', 'priority', 'unique', 'entry',
    'worker', 'replays')
  return {state = j[1], attempts = j[2], tenant = j[3], priority = j[4], unique = j[5], entry = j[6],
    worker = j[7], replays = j[8]}
end

-- over ends a job in nobody's hands, and frees its unique key.
local function over(id, j, state, reason, by)
  if j.unique ~= '' then redis.call('HDEL', key('unique'), j.unique) end
  redis.call('HSET', jobKey(id), 'state', state, 'reason', reason, 'ended', int(now), 'ended_by', by)
  redis.call('SREM', key('live'), id)
end

-- release takes what a worker had out of its hands.
local function release(id, j)
  if streams then
    local q = queue(j.tenant, j.priority)
    redis.call('XACK', q, 'workers', j.entry)
    redis.call('XDEL', q, j.entry)
  else
    redis.call('LREM', key('taken:' .. j.worker), 1, id)
  end
  redis.call('ZREM', key('running'), id)
end

-- mine says whether a job is still claimed by an attempt.
local function mine(j, attempt) return j.state == 'running' and j.attempts == attempt end

if what == 'put' then
  local id, tenant, priority, unique, delay, payload = ARGV[3], ARGV[4], ARGV[5], ARGV[6],
    tonumber(ARGV[7]), ARGV[8]
  if redis.call('EXISTS', jobKey(id)) == 1 then return {'ok'} end
  if unique ~= '' and redis.call('HSETNX', key('unique'), unique, id) == 0 then return {'duplicate'} end
  redis.call('HSET', jobKey(id), 'id', id, 'tenant', tenant, 'priority', priority, 'unique', unique,
    'payload', payload, 'attempts', 0, 'replays', 0, 'reason', '', 'ended_by', 0, 'created', int(now),
    'ended', 0, 'state', 'waiting')
  redis.call('ZADD', key('tenants'), 0, tenant)
  redis.call('SADD', key('live'), id)
  if delay > 0 then
    redis.call('ZADD', key('waiting'), int(now + delay * 1000), id)
  else
    makeReady(id)
  end
  return {'ok'}
end

if what == 'cancel' or what == 'replay' then
  local id = ARGV[3]
  local j = read(id)
  if not j.state then return {'unknown_job'} end
  if what == 'cancel' then
    if j.state ~= 'ready' and j.state ~= 'waiting' then return {'too_late'} end
    redis.call('ZREM', key('waiting'), id)
    over(id, j, 'cancelled', '', 0) -- whoever takes its number finds that
    return {'ok'}
  end
  if j.state ~= 'dead' then return {'not_dead'} end
  if j.unique ~= '' and redis.call('HSETNX', key('unique'), j.unique, id) == 0 then
    return {'not_dead'}
  end
  redis.call('HSET', jobKey(id), 'replays', j.replays + 1, 'attempts', int((j.replays + 1) * ARGV[4]),
    'reason', '', 'ended', 0)
  redis.call('SADD', key('live'), id)
  makeReady(id)
  return {'ok'}
end

-- pop takes the first job that is still ready from a list or a stream into a worker's hands, for an
-- attempt. Queues that are found to be empty are not looked at again.
local drained = {}
local function pop(tenant, priority, worker)
  local q = queue(tenant, priority)
  while not drained[q] do
    local id, entry = nil, ''
    if streams then
      local got = redis.call('EXISTS', q) == 1 and
        redis.call('XREADGROUP', 'GROUP', 'workers', worker, 'COUNT', 1, 'STREAMS', q, '>')
      if got and got[1] then entry, id = got[1][2][1][1], got[1][2][1][2][2] end
    else
      id = redis.call('LMOVE', q, key('taken:' .. worker), 'RIGHT', 'LEFT')
    end
    if not id then
      drained[q] = true
      return nil
    end
    local j = redis.call('HMGET', jobKey(id), 'state', 'attempts', 'payload')
    if j[1] == 'ready' then
      local attempt = j[2] + 1
      redis.call('HSET', jobKey(id), 'entry', entry, 'worker', worker, 'state', 'running', 'attempts', attempt)
      return id, j[3], attempt
    end
    -- It was cancelled.
    release(id, {tenant = tenant, priority = priority, entry = entry, worker = worker})
  end
end

if what == 'take' then
  local worker, last, most, lease = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
  local every, burst = tonumber(ARGV[7]), tonumber(ARGV[8]) -- a tenant's limit; every is 0 without one
  local tenants, from, out = redis.call('ZRANGE', key('tenants'), 0, -1), 0, {}
  for i, tenant in ipairs(tenants) do
    if tenant <= last then from = i end
  end
  local empty, i = 0, from
  while empty < #tenants and #out < most do
    local tenant, id, payload, attempt = tenants[i % #tenants + 1], nil, nil, nil
    i = i + 1
    local spent = math.max(now, every > 0 and tonumber(redis.call('HGET', key('spent'), tenant) or 0) or 0)
    if spent - now <= (burst - 1) * every then
      for priority = 1, 3 do
        if not id then id, payload, attempt = pop(tenant, priority, worker) end
      end
    end
    if id then
      if every > 0 then redis.call('HSET', key('spent'), tenant, int(spent + every)) end
      redis.call('ZADD', key('running'), int(now + lease), id)
      out[#out + 1] = {payload, attempt}
      empty = 0
    else
      empty = empty + 1
    end
  end
  return {int(now), out}
end

if what == 'beat' or what == 'done' then
  local n, lease = 0, tonumber(ARGV[3])
  for i = 4, #ARGV, 2 do
    local id, attempt = ARGV[i], ARGV[i + 1]
    local j = read(id)
    if mine(j, attempt) then
      n = n + 1
      if what == 'beat' then
        redis.call('ZADD', key('running'), int(now + lease), id)
      else
        release(id, j)
        over(id, j, 'done', '', attempt)
      end
    end
  end
  return {int(n)}
end

if what == 'fail' then
  local id, attempt, reason, pause = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
  local j = read(id)
  if not mine(j, attempt) then return {'lost'} end
  release(id, j)
  if reason ~= '' then
    over(id, j, 'dead', reason, 0)
    return {int(now), '0'}
  end
  redis.call('HSET', jobKey(id), 'state', 'waiting')
  redis.call('ZADD', key('waiting'), int(now + pause), id)
  return {int(now), int(now + pause)}
end

if what == 'upkeep' then
  local most, attempts = tonumber(ARGV[3]), tonumber(ARGV[4])
  local due = redis.call('ZRANGE', key('waiting'), '-inf', int(now), 'BYSCORE', 'LIMIT', 0, most)
  for _, id in ipairs(due) do
    redis.call('ZREM', key('waiting'), id)
    makeReady(id)
  end
  local lost = redis.call('ZRANGE', key('running'), '-inf', int(now), 'BYSCORE', 'LIMIT', 0, most)
  for _, id in ipairs(lost) do
    local j = read(id)
    release(id, j)
    if tonumber(j.attempts) >= attempts * (j.replays + 1) then
      over(id, j, 'dead', 'attempts', 0)
    else
      makeReady(id)
    end
  end
  return {int(math.max(#due, #lost))}
end
