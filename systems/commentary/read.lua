-- Reads the copy of a match, at one moment. Whoever has its version is told no more than that.
-- KEYS: as of put.lua, and perhaps the changes that are known, and the run of Redis of which a match
-- must be, which is returned if it is not. ARGV: the version that is known.
local version, run = redis.call('GET', KEYS[2]), ''
if KEYS[4] then
    run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
    if redis.call('GET', KEYS[4]) ~= run then
        version = false
    end
end
if not version then
    return {'-1', {}, run}
end
if version == ARGV[1] then
    return {version, {}}
end
return {version, redis.call('ZRANGE', KEYS[1], 0, -1, 'REV')}
