-- Begins an epoch of a match: with what Redis has from before it was restarted, and with what was
-- written elsewhere and it has lost. In an epoch of this run of Redis nothing begins.
-- KEYS: the comments and the version, as of put.lua, the changes that are known, and the run.
-- ARGV: the version, how long a match is live, in milliseconds, how many comments are kept, the run for
-- which the version was chosen, and ids and comments.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
if run ~= ARGV[4] or redis.call('EXISTS', KEYS[2]) == 1 and redis.call('GET', KEYS[4]) == run then
    return 0
end
for i = 5, #ARGV, 2 do
    local have = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[i], ARGV[i])[1]
    if not have or cjson.decode(have).version < cjson.decode(ARGV[i + 1]).version then
        redis.call('ZREMRANGEBYSCORE', KEYS[1], ARGV[i], ARGV[i])
        redis.call('ZADD', KEYS[1], ARGV[i], ARGV[i + 1])
    end
end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[3])
redis.call('SET', KEYS[2], ARGV[1])
redis.call('SET', KEYS[4], run)
for i = 1, 4 do
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
end
return 1
