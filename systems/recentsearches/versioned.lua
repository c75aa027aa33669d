-- A list that is valid or not. KEYS are the list and its writers, members whose score is when they
-- certainly have ended. ARGV are what to do, how many milliseconds a list stays, how many a writer
-- lasts at most, and then
--   begin: a writer
--   finish: a writer, the version of the list after its change, and that list
--   look: nothing; answers the list, and leave to fill it in
--   fill: that leave, a version, and the list
-- A list begins with the run of Redis in which it was written. Notes of an earlier run may be lost:
-- while their writers may be under way, and of writers who began by then, no list is kept.
local info = redis.call('INFO', 'server')
local life = string.match(info, 'run_id:(%x+)')
local up = tonumber(string.match(info, 'uptime_in_seconds:(%d+)')) * 1000
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function put(version, text)
    local was = redis.call('GET', KEYS[1])
    if was then
        local of, older = string.match(was, '^(%x+) (%d+)')
        if of == life and tonumber(older) >= tonumber(version) then
            return
        end
    end
    redis.call('SET', KEYS[1], life .. ' ' .. text, 'PX', ARGV[2])
end

local lasts = tonumber(ARGV[3])
-- A writer that has not finished may have changed the list after the one that is here.
if redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now) > 0 then
    redis.call('DEL', KEYS[1])
end
local writers = redis.call('ZCARD', KEYS[2])

if ARGV[1] == 'begin' then
    redis.call('ZADD', KEYS[2], now + lasts, ARGV[4])
    redis.call('PEXPIRE', KEYS[2], ARGV[2] + lasts + 1000) -- later than any list
elseif ARGV[1] == 'finish' then
    local ends = redis.call('ZSCORE', KEYS[2], ARGV[4])
    if ends then
        redis.call('ZREM', KEYS[2], ARGV[4])
        if ends - lasts >= now - up + lasts then
            put(ARGV[5], ARGV[6])
        end
    end
elseif ARGV[1] == 'look' then
    if writers > 0 or up < lasts then
        return {'', ''}
    end
    local was = redis.call('GET', KEYS[1])
    if was and string.match(was, '^%x+') == life then
        return {string.sub(was, #life + 2), ''}
    end
    return {'', life .. ' ' .. now}
elseif ARGV[1] == 'fill' then
    local of, at = string.match(ARGV[4], '^(%x+) (%d+)$')
    if of == life and writers == 0 and now - at < 1000 then
        put(ARGV[5], ARGV[6])
    end
end
return {'', ''}
