-- Keeps a change of a match in Redis, once, and in the list of those that are not in Postgres yet.
-- KEYS: as of begin.lua, and the list.
-- ARGV: the change's identity, its match, the comment or 0 for a new one, the ball, the text, how many
-- comments are kept, and how long a match is live, in milliseconds.
-- Returns the version, the comment and the ball, or what there is not: a comment, or a match of this
-- run of Redis, and the run.
local known = redis.call('HGET', KEYS[3], ARGV[1])
if known then
    return cjson.decode(known)
end
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
if redis.call('EXISTS', KEYS[2]) == 0 or redis.call('GET', KEYS[4]) ~= run then
    return {'no match', run}
end
local id, ball = ARGV[3], ARGV[4]
if id ~= '0' then
    local found = redis.call('ZRANGEBYSCORE', KEYS[1], id, id)
    if #found == 0 then
        return {'no comment'}
    end
    ball = cjson.decode(found[1]).ball
end
local version = redis.call('INCR', KEYS[2])
if id == '0' then
    id = tostring(version)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], id, id)
redis.call('ZADD', KEYS[1], id, string.format('{"id":%s,"version":%d,"ball":%s,"text":%s}', id, version,
    cjson.encode(ball), cjson.encode(ARGV[5])))
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[6])
local kept = {tostring(version), id, ball}
redis.call('HSET', KEYS[3], ARGV[1], cjson.encode(kept))
redis.call('RPUSH', KEYS[5], string.format(
    '{"op_id":%s,"match":%s,"version":%d,"comment":%s,"ball":%s,"text":%s}', ARGV[1], ARGV[2], version, id,
    cjson.encode(ball), cjson.encode(ARGV[5])))
for i = 1, 4 do
    redis.call('PEXPIRE', KEYS[i], ARGV[7])
end
return kept
