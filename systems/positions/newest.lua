-- Shows newer positions, and moves a partition on: KEYS are the offsets and the positions of all
-- drivers. ARGV are the partition, the offset at which it must be, the next one, whether an older
-- position may take the place of a newer one, and pairs of a driver and a position, which begins
-- with its number and a colon.
local stands = redis.call('HGET', KEYS[1], ARGV[1]) or '0'
if stands ~= ARGV[2] then
    return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
for at = 5, #ARGV, 2 do
    local was = redis.call('HGET', KEYS[2], ARGV[at])
    if not was or ARGV[4] == '1' or
        tonumber(string.match(was, '^%d+')) < tonumber(string.match(ARGV[at + 1], '^%d+')) then
        redis.call('HSET', KEYS[2], ARGV[at], ARGV[at + 1])
    end
end
return 1
