-- Raises the counts of some windows, and moves a partition on: KEYS are the offsets, the panes, the
-- numbers of events, and the sorted set of each window. ARGV are the partition, the offset at which
-- it must be and the next one, and for each window the name of its pane, what that is, the window,
-- by how many events it grows, and how many pairs of an increment and a member follow.
local stands = redis.call('HGET', KEYS[1], ARGV[1]) or '0'
if stands ~= ARGV[2] then
    return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
local at = 4
for window = 4, #KEYS do
    redis.call('HSET', KEYS[2], ARGV[at], ARGV[at + 1])
    redis.call('HINCRBY', KEYS[3], ARGV[at + 2], ARGV[at + 3])
    local pairs_end = at + 4 + 2 * tonumber(ARGV[at + 4])
    for pair = at + 5, pairs_end, 2 do
        redis.call('ZINCRBY', KEYS[window], ARGV[pair], ARGV[pair + 1])
    end
    at = pairs_end + 1
end
return 1
