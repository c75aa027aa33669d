-- Takes a partial sum into the inbox of the middle. ARGV: the epoch of the edge, the sequence, and for
-- each counter its key, the number of its adds, and of each the number and the delta. An add that
-- another partial sum had is left out. Numbers are looked up and noted many at a time: a call for each
-- took most of the time of Redis.
local mine, most = ARGV[1] .. ':' .. ARGV[2], 2000
local adds, at = {}, 3
while at < #ARGV do
    local after = at + 2 + 2 * tonumber(ARGV[at + 1])
    for i = at + 2, after - 1, 2 do
        adds[#adds + 1] = ARGV[i]
    end
    at = after
end
local whose = {}
for first = 1, #adds, most do
    local last = math.min(first + most - 1, #adds)
    local values = redis.call('HMGET', KEYS[3], unpack(adds, first, last))
    for i = first, last do
        whose[adds[i]] = values[i - first + 1]
    end
end
local lines, new = {'edge,' .. ARGV[1] .. ',' .. ARGV[2]}, {}
at = 3
while at < #ARGV do
    local after, sum, members = at + 2 + 2 * tonumber(ARGV[at + 1]), 0, {}
    for i = at + 2, after - 1, 2 do
        local add, delta = ARGV[i], ARGV[i + 1]
        local had = whose[add]
        if had == false then
            new[#new + 1] = add
            new[#new + 1] = mine
        end
        if had == false or had == mine then
            whose[add] = true -- it comes again here at most to no effect
            sum = sum + tonumber(delta)
            members[#members + 1] = add .. ':' .. delta
        end
    end
    if #members > 0 then
        lines[#lines + 1] = ARGV[at] .. ',' .. string.format('%d', sum) .. ',' ..
            table.concat(members, ' ')
    end
    at = after
end
for first = 1, #new, most do
    redis.call('HSET', KEYS[3], unpack(new, first, math.min(first + most - 1, #new)))
end
redis.call('RPUSH', KEYS[1], table.concat(lines, '\n'))
return 1
