-- What claims of ticks have in common; for how long (ms) the mark is to be remembered, retry '1' or '0'.
-- The answer to a claim for a tick that is not to be run, or 'runs' if somebody is at it who is alive; else nothing,
-- what stands open of it, and the mark. With `idle` nobody else has the name.
stands = function(tick, retry, ms, alive, idle)
  local mark, forgotten = unpack(call('HMGET', K[2], 'm', 'f'))
  if tick ~= '0' then
    if tonumber(tick) > now + SLACK then return { 4, tick - now } end
    if now - tick > ms - SLACK then return { 5, now - tick } end
  end
  -- A key whose time is over was never there, unless somebody has it.
  if tick == '0' and forgotten and now >= tonumber(forgotten) and idle then
    call('HDEL', K[2], 'm', 'f', 'r', 'o:0')
    mark = false
  end
  local open = call('HGET', K[2], 'o:' .. tick)
  if mark and tonumber(tick) <= tonumber(mark) then
    local who, count, once = string.match(open or '', '^(%S+) (%d+) ([01])$')
    if who and alive[who] then return 'runs' end
    if not who or not (count == '0' or (once == '0' and retry == '1')) then return { 3, mark, who and 1 or 0 } end
  end
  return nil, open, mark
end

-- Claims it: how often that has been done, and the tick that is given up since too many are open, or ''.
claims = function(tick, retry, ms, holder, open, mark)
  local attempt, gave_up = tonumber(string.match(open or '', '^%S+ (%d+)') or '0') + 1, ''
  call('HSET', K[2], 'm', text(math.max(tonumber(mark or '0'), tonumber(tick))),
    'o:' .. tick, holder .. ' ' .. attempt .. ' ' .. (retry == '1' and '0' or '1'))
  -- A key is remembered for a while, a job's mark for as long as its name.
  if tick == '0' then call('HSET', K[2], 'f', text(now + ms), 'r', ms) else call('HDEL', K[2], 'f', 'r') end
  if not open then
    local ticks = {}
    for _, field in ipairs(call('HKEYS', K[2])) do
      if string.sub(field, 1, 2) == 'o:' then ticks[#ticks + 1] = tonumber(string.sub(field, 3)) end
    end
    if #ticks > OPEN_TICKS then
      gave_up = text(math.min(unpack(ticks)))
      call('HDEL', K[2], 'o:' .. gave_up)
    end
  end
  return attempt, gave_up
end
