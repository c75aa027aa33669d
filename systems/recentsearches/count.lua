-- Counts terms, and moves a partition on. KEYS are the offsets, and the counts, once for each event.
-- ARGV are the partition, the offset at which it must be and the next one, and of each event its term,
-- and whether it counts.
if (redis.call('HGET', KEYS[1], ARGV[1]) or '0') ~= ARGV[2] then
    return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
for i = 2, #KEYS do
    local at = 2 * i
    if ARGV[at + 1] == '1' then
        redis.call('HINCRBY', KEYS[i], ARGV[at], 1)
    end
end
return 1
