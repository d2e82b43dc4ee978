  -- Of a claim for `tick`, to be tried again (`retry`, '1' or '0') and remembered for `ms`: what stands `open` of it and
  -- the `mark`; and the `answer` if it is not to be run, 'runs' if somebody is at it who is `alive`. With `idle` nobody
  -- else has the name.
  local forgotten
  mark, forgotten = unpack(call('HMGET', K[2], 'm', 'f'))
  if tick ~= '0' and tonumber(tick) > now + SLACK then
    answer = { 4, tick - now }
  elseif tick ~= '0' and now - tick > ms - SLACK then
    answer = { 5, now - tick }
  else
    -- A key whose time is over was never there, unless somebody has it.
    if tick == '0' and forgotten and now >= tonumber(forgotten) and idle then
      call('HDEL', K[2], 'm', 'f', 'r', 'o:0')
      mark = false
    end
    open = call('HGET', K[2], 'o:' .. tick)
    if mark and tonumber(tick) <= tonumber(mark) then
      local who, count, once = string.match(open or '', '^(%S+) (%d+) ([01])$')
      if who and alive[who] then
        answer = 'runs'
      elseif not who or not (count == '0' or (once == '0' and retry == '1')) then
        answer = { 3, mark, who and 1 or 0 }
      end
    end
  end
