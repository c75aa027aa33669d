-- Brings queries to the index, and moves the log on. KEYS are the offsets, and what all other keys begin
-- with. ARGV are the offset at which the log must be and the next one, the weight of a recent query, how
-- many slots are recent and how many are the baseline, how many bytes of a phrase have a set of their
-- own, how many phrases of a user are kept, and of each query its slot, its user and its phrase.
local base = KEYS[2]
if (redis.call('HGET', KEYS[1], '0') or '0') ~= ARGV[1] then
    return 0
end
redis.call('HSET', KEYS[1], '0', ARGV[2])
local weight, recent, baseline = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local depth, kept = tonumber(ARGV[6]), tonumber(ARGV[7])
local slots, counts = base .. 'slots', base .. 'recent'

-- Scores are negative, because Redis gives equal ones by ascending bytes.
local function score(phrase, change)
    local left = tonumber(redis.call('ZINCRBY', base .. 'all', -change, phrase))
    for i = 0, math.min(#phrase, depth) do
        local set = i == 0 and base .. 'all' or base .. 'under:' .. string.sub(phrase, 1, i)
        if left == 0 then
            redis.call('ZREM', set, phrase)
        elseif i > 0 then
            redis.call('ZADD', set, left, phrase)
        end
    end
end

local function each(slot, do_)
    local list = redis.call('HGETALL', base .. 'slot:' .. slot)
    for i = 1, #list, 2 do
        do_(list[i], tonumber(list[i + 1]))
    end
end

local function roll(from, to)
    for _, slot in ipairs(redis.call('ZRANGEBYSCORE', slots, '(' .. from - recent, to - recent)) do
        each(slot, function(phrase, n)
            score(phrase, -(weight - 1) * n)
            if redis.call('HINCRBY', counts, phrase, -n) == 0 then
                redis.call('HDEL', counts, phrase)
            end
        end)
    end
    local last = to - recent - baseline
    for _, slot in ipairs(redis.call('ZRANGEBYSCORE', slots, '-inf', last)) do
        each(slot, function(phrase, n) score(phrase, -n) end)
        redis.call('DEL', base .. 'slot:' .. slot)
    end
    redis.call('ZREMRANGEBYSCORE', slots, '-inf', last)
end

local clock = tonumber(redis.call('GET', base .. 'clock'))
for i = 8, #ARGV, 3 do
    local slot, own, phrase = tonumber(ARGV[i]), base .. 'user:' .. ARGV[i + 1], ARGV[i + 2]
    if clock and slot > clock then
        roll(clock, slot)
    end
    clock = math.max(clock or slot, slot)
    redis.call('ZADD', slots, clock, clock)
    redis.call('HINCRBY', base .. 'slot:' .. clock, phrase, 1)
    redis.call('HINCRBY', counts, phrase, 1)
    score(phrase, weight)
    redis.call('LREM', own, 0, phrase)
    redis.call('LPUSH', own, phrase)
    redis.call('LTRIM', own, 0, kept - 1)
end
if clock then
    redis.call('SET', base .. 'clock', clock)
end
return 1
