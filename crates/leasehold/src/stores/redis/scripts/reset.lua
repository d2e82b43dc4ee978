-- Forgets which ticks were claimed, and which stand open.     1 there was a mark · 0 there was none
local known, fields = call('HGET', K[2], 'm'), { 'm', 'f', 'r' }
for _, field in ipairs(call('HKEYS', K[2])) do
  if string.sub(field, 1, 2) == 'o:' then fields[#fields + 1] = field end
end
call('HDEL', K[2], unpack(fields))
return known and 1 or 0
