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

-- over ends jobs in nobody's hands, and frees their unique keys.
local function over(ids, jobs, state, reason, by)
  for n, id in ipairs(ids) do
    if jobs[n].unique ~= '' then redis.call('HDEL', key('unique'), jobs[n].unique) end
    redis.call('HSET', jobKey(id), 'state', state, 'reason', reason, 'ended', int(now), 'ended_by', by[n])
  end
  if #ids > 0 then redis.call('SREM', key('live'), unpack(ids)) end
end

-- release takes what workers had out of their hands.
local function release(ids, jobs)
  local entries = {}
  for n, id in ipairs(ids) do
    local j = jobs[n]
    if streams then
      local q = queue(j.tenant, j.priority)
      entries[q] = entries[q] or {}
      table.insert(entries[q], j.entry)
    else
      redis.call('LREM', key('taken:' .. j.worker), 1, id)
    end
  end
  for q, list in pairs(entries) do
    redis.call('XACK', q, 'workers', unpack(list))
    redis.call('XDEL', q, unpack(list))
  end
  if #ids > 0 then redis.call('ZREM', key('running'), unpack(ids)) end
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
    over({id}, {j}, 'cancelled', '', {0}) -- whoever takes its number finds that
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

-- pull moves the first numbers of a list or a stream into a worker's hands, at most so many.
local function pull(q, most, worker)
  local ids, entries = {}, {}
  if streams then
    local got = redis.call('EXISTS', q) == 1 and
      redis.call('XREADGROUP', 'GROUP', 'workers', worker, 'COUNT', most, 'STREAMS', q, '>')
    for n, entry in ipairs(got and got[1][2] or {}) do entries[n], ids[n] = entry[1], entry[2][2] end
    return ids, entries
  end
  for n = 1, most do
    ids[n] = redis.call('LMOVE', q, key('taken:' .. worker), 'RIGHT', 'LEFT') or nil
    if not ids[n] then break end
    entries[n] = ''
  end
  return ids, entries
end

-- take claims the first jobs that are still ready, at most so many, and adds them to out. Queues that
-- are found to be empty are not looked at again.
local drained = {}
local function take(tenant, priority, most, worker, lease, out)
  local q, taken, leases = queue(tenant, priority), 0, {}
  while taken < most and not drained[q] do
    local ids, entries = pull(q, most - taken, worker)
    drained[q] = #ids < most - taken
    for n, id in ipairs(ids) do
      local j = redis.call('HMGET', jobKey(id), 'state', 'attempts', 'payload')
      if j[1] == 'ready' then
        local attempt = j[2] + 1
        redis.call('HSET', jobKey(id), 'entry', entries[n], 'worker', worker, 'state', 'running',
          'attempts', attempt)
        leases[#leases + 1] = int(now + lease)
        leases[#leases + 1] = id
        out[#out + 1] = {j[3], attempt}
        taken = taken + 1
      else -- it was cancelled
        release({id}, {{tenant = tenant, priority = priority, entry = entries[n], worker = worker}})
      end
    end
  end
  if taken > 0 then redis.call('ZADD', key('running'), unpack(leases)) end
  return taken
end

-- Goes round the tenants, and takes of each its share of what is left to take, until nobody has any.
if what == 'take' then
  local worker, last, most, lease = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
  local every, burst = tonumber(ARGV[7]), tonumber(ARGV[8]) -- a tenant's limit; every is 0 without one
  local tenants, from, out, before = redis.call('ZRANGE', key('tenants'), 0, -1), 0, {}, -1
  for i, tenant in ipairs(tenants) do
    if tenant <= last then from = i end
  end
  while before < #out and #out < most do
    before = #out
    local share = math.max(1, math.floor((most - before) / #tenants))
    for i = from, from + #tenants - 1 do
      local tenant, mine = tenants[i % #tenants + 1], math.min(share, most - #out)
      local spent = math.max(now, every > 0 and tonumber(redis.call('HGET', key('spent'), tenant) or 0) or 0)
      if every > 0 then mine = math.min(mine, burst - math.ceil((spent - now) / every)) end
      local taken = 0
      for priority = 1, 3 do
        taken = taken + take(tenant, priority, mine - taken, worker, lease, out)
      end
      if every > 0 and taken > 0 then
        redis.call('HSET', key('spent'), tenant, int(spent + taken * every))
      end
    end
  end
  return {int(now), out}
end

if what == 'beat' or what == 'done' then
  local ids, jobs, attempts, leases = {}, {}, {}, {}
  for i = 4, #ARGV, 2 do
    local id, j = ARGV[i], read(ARGV[i])
    if mine(j, ARGV[i + 1]) then
      ids[#ids + 1], jobs[#jobs + 1], attempts[#attempts + 1] = id, j, ARGV[i + 1]
      leases[#leases + 1] = int(now + tonumber(ARGV[3]))
      leases[#leases + 1] = id
    end
  end
  if what == 'done' then
    release(ids, jobs)
    over(ids, jobs, 'done', '', attempts)
  elseif #ids > 0 then
    redis.call('ZADD', key('running'), unpack(leases))
  end
  return {int(#ids)}
end

if what == 'fail' then
  local id, attempt, reason, pause = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
  local j = read(id)
  if not mine(j, attempt) then return {'lost'} end
  release({id}, {j})
  if reason ~= '' then
    over({id}, {j}, 'dead', reason, {0})
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
    release({id}, {j})
    if tonumber(j.attempts) >= attempts * (j.replays + 1) then
      over({id}, {j}, 'dead', 'attempts', {0})
    else
      makeReady(id)
    end
  end
  return {int(math.max(#due, #lost))}
end
