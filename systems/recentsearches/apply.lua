-- Changes a list by an event. KEYS is the list, ARGV the event's version, its term, whether that is
-- forgotten, how many terms a list has, and how many milliseconds it stays.
local version, terms = '0', {}
local was = redis.call('GET', KEYS[1])
if was then
    version = string.match(was, '^%d+')
    terms = cjson.decode(string.sub(was, #version + 2))
end
local now = {}
if ARGV[3] == '0' then
    now[1] = ARGV[2]
end
for _, term in ipairs(terms) do
    if term ~= ARGV[2] and #now < tonumber(ARGV[4]) then
        now[#now + 1] = term
    end
end
if tonumber(version) < tonumber(ARGV[1]) then
    version = ARGV[1]
end
local text = #now > 0 and cjson.encode(now) or '[]'
redis.call('SET', KEYS[1], version .. ' ' .. text, 'PX', ARGV[5])
return 1
