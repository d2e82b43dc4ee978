-- ARGV life     {life, full, blank, token, newest|'', floor|'', now, kept for (ms), announced|'', tick and 'holder attempts once' of each that stands open…}
--@clock
--@life
-- A key whose time is over was never there. A mark of ticks has no end, whatever the name was before.
local forgotten = h[3] == '0' and call('HGET', K[2], 'f')
local is_over = forgotten and now >= tonumber(forgotten) and call('EXISTS', K[1]) == 0
local announced, heard_in = string.match(call('HGET', K[6], 'announced') or '', '^(%d+) (.*)$')
local told = {
  life, full and 1 or 0, own[1] and 0 or 1, text(math.max(counter, least)), not is_over and h[3] or '',
  floor > 0 and text(floor) or '', now, math.max(call('PTTL', K[2]), 0),
  not own[1] and heard_in == life and announced or '',
}
local fields = current and call('HGETALL', K[2]) or {}
for i = 1, #fields, 2 do
  local tick = string.match(fields[i], '^o:(%d+)$')
  if tick and not is_over then
    told[#told + 1] = tick
    told[#told + 1] = fields[i + 1]
  end
end
return told
