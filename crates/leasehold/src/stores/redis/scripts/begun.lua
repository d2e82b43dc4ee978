    -- `holder` claims `tick`: the `attempt` that it is, and the tick that it `gave_up` since too many are open.
    attempt = tonumber(string.match(open or '', '^%S+ (%d+)') or '0') + 1
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
