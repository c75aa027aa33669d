-- A list that is valid or not. KEYS are the list and its writers, members whose score is when they
-- certainly have ended. ARGV are what to do, how many milliseconds a list stays, how many a writer
-- lasts at most, and then
--   begin: a writer
--   finish: a writer, the version of the list after its change, and that list
--   look: nothing; answers the list, and leave to fill it in
--   fill: that leave, a version, and the list
-- A list is the run of Redis in which it was written, its version, and the terms. In place of the
-- terms, "-" and a time say that there may be a later version: then the list is not valid, and only
-- those who began after that time may put one. Notes of an earlier run may be lost: while their
-- writers may be under way no list is valid, and who began by then puts none.
local info = redis.call('INFO', 'server')
local run = string.match(info, 'run_id:(%x+)')
local up = tonumber(string.match(info, 'uptime_in_seconds:(%d+)')) * 1000
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lasts = tonumber(ARGV[3])

-- known is the version that is here, since when what is here is not valid.
local known, terms, since = 0, nil, 0
local function read()
    local was = redis.call('GET', KEYS[1])
    local of, version, rest = string.match(was or '', '^(%x+) (%d+) (.*)$')
    if of == run then
        known, terms = tonumber(version), rest
        since = tonumber(string.match(rest, '^%-(%d+)$') or 0)
    end
end
local function write(version, rest)
    redis.call('SET', KEYS[1], string.format('%s %.0f %s', run, version, rest), 'PX', ARGV[2])
end

read()
-- A writer that has not finished may have changed the list after the one that is here.
if redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now) > 0 then
    write(known, string.format('-%.0f', now))
    read()
end
local writers = redis.call('ZCARD', KEYS[2])

if ARGV[1] == 'begin' then
    redis.call('ZADD', KEYS[2], now + lasts, ARGV[4])
    redis.call('PEXPIRE', KEYS[2], ARGV[2] + lasts + 1000) -- later than any list
elseif ARGV[1] == 'finish' then
    local ends, version = redis.call('ZSCORE', KEYS[2], ARGV[4]), tonumber(ARGV[5])
    redis.call('ZREM', KEYS[2], ARGV[4])
    if version >= known then
        local began = ends and ends - lasts
        if began and began > since and began >= now - up + lasts then
            write(version, ARGV[6])
        else
            write(version, string.format('-%.0f', since))
        end
    end
elseif ARGV[1] == 'look' then
    if writers > 0 or up < lasts then
        return {'', ''}
    end
    if terms and string.sub(terms, 1, 1) ~= '-' then
        return {string.format('%.0f %s', known, terms), ''}
    end
    return {'', string.format('%s %.0f', run, now)}
elseif ARGV[1] == 'fill' then
    local of, at = string.match(ARGV[4], '^(%x+) (%d+)$')
    at = tonumber(at)
    if of == run and writers == 0 and now - at < 1000 and at >= since and
        tonumber(ARGV[5]) >= known then
        write(tonumber(ARGV[5]), ARGV[6])
    end
end
return {'', ''}
