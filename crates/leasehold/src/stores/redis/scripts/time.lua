local DAYS_7, SLACK, ENTRY, OPEN_TICKS = 604800000, 300000, 1000, 32

clock = clock or call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- A whole number's digits, in two halves: a quarter of what '%.0f' costs.
local function text(number)
  if number < 10000000 then return string.format('%d', number) end
  return string.format('%d%07d', math.floor(number / 10000000), number % 10000000)
end

local function next_token(last)
  return math.max((tonumber(last) or 0) + 1, (now - 1577836800000) * 16)
end
