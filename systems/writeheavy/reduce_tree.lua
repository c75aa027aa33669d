-- Takes a partial sum into the inbox of the middle. ARGV: the epoch of the edge, the sequence, and for
-- each add its number, its counter and its delta, those of a counter together. An add that another
-- partial sum had is left out.
local mine = ARGV[1] .. ':' .. ARGV[2]
local lines = {'edge,' .. ARGV[1] .. ',' .. ARGV[2]}
local key, sum, members = nil, 0, {}
local function close()
    if #members > 0 then
        lines[#lines + 1] = key .. ',' .. string.format('%d', sum) .. ',' .. table.concat(members, ' ')
    end
    sum, members = 0, {}
end
local here = {}
for i = 3, #ARGV, 3 do
    local add = ARGV[i]
    if ARGV[i + 1] ~= key then
        close()
        key = ARGV[i + 1]
    end
    local new = redis.call('HSETNX', KEYS[3], add, mine) == 1
    if (new or redis.call('HGET', KEYS[3], add) == mine) and not here[add] then
        here[add] = true
        sum = sum + tonumber(ARGV[i + 2])
        members[#members + 1] = add .. ':' .. ARGV[i + 2]
    end
end
close()
redis.call('RPUSH', KEYS[1], table.concat(lines, '\n'))
return 1
