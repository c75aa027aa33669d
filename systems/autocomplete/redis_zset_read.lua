-- Reads a sorted set and a user's phrases at one moment. KEYS are the offsets, and what all other keys
-- begin with. ARGV are the set, the last rank that is wanted (-1 for all), and the user. It returns the
-- version, and of each phrase of the set, and of each of the user's, the phrase, minus its score, and
-- how many recent queries it has.
local function rows(phrases)
    local out = {}
    for _, phrase in ipairs(phrases) do
        out[#out + 1] = phrase
        out[#out + 1] = redis.call('ZSCORE', KEYS[2] .. 'all', phrase) or '0'
        out[#out + 1] = redis.call('HGET', KEYS[2] .. 'recent', phrase) or '0'
    end
    return out
end
return {
    redis.call('HGET', KEYS[1], '0') or '0',
    rows(redis.call('ZRANGE', KEYS[2] .. ARGV[1], 0, ARGV[2])),
    rows(redis.call('LRANGE', KEYS[2] .. 'user:' .. ARGV[3], 0, -1)),
}
