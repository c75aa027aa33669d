-- Puts a change into the copy of its match, if the copy has all changes before it. Else nobody knows
-- what is missing, and the copy goes.
-- KEYS: the comments, a sorted set by id, and the version. ARGV: the version, the comment's id, the
-- comment, and how many are kept.
local version = tonumber(ARGV[1])
local have = tonumber(redis.call('GET', KEYS[2]) or -1)
if have >= version then
    return 0
end
if have ~= version - 1 then
    redis.call('DEL', KEYS[1], KEYS[2])
    return 0
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], ARGV[2], ARGV[2])
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[3])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[4])
redis.call('SET', KEYS[2], ARGV[1], 'KEEPTTL')
local left = redis.call('PTTL', KEYS[2])
if left > 0 then -- a set that was empty did not exist
    redis.call('PEXPIRE', KEYS[1], left)
end
return 1
