-- {now (us), holder ticket label…} of those who wait and are alive, in order. Who is dead is left where it is: this only looks.
--@time
local told, line = { text(clock[1] * 1000000 + clock[2]) }, call('ZRANGE', K[3], 0, -1, 'WITHSCORES')
for i = 1, #line, 2 do
  local at, label = string.match(call('HGET', K[4], line[i]) or '', '^(%d+) %S+ %S+ %d+ (.*)$')
  if at and math.abs(now - at) <= ENTRY then
    for _, field in ipairs({ line[i], line[i + 1], label }) do told[#told + 1] = field end
  end
end
return told
