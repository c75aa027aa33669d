-- Changes lists by events, in their order, and moves a partition on. KEYS are the offsets, and the
-- list of each event. ARGV are the partition, the offset at which it must be and the next one, and
-- of each event its version, its term, whether that is forgotten, and how many terms a list has.
if (redis.call('HGET', KEYS[1], ARGV[1]) or '0') ~= ARGV[2] then
    return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
for i = 2, #KEYS do
    local at = 4 * (i - 1)
    local now = {}
    if ARGV[at + 2] == '0' then
        now[1] = ARGV[at + 1]
    end
    local was = redis.call('GET', KEYS[i])
    if was then
        for _, term in ipairs(cjson.decode(string.match(was, ' (.*)'))) do
            if term ~= ARGV[at + 1] and #now < tonumber(ARGV[at + 3]) then
                now[#now + 1] = term
            end
        end
    end
    redis.call('SET', KEYS[i], ARGV[at] .. ' ' .. (#now > 0 and cjson.encode(now) or '[]'))
end
return 1
