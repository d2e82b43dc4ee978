-- KEYS order texts (see note)    ARGV id…
for _, id in ipairs(A) do
  call('ZREM', K[1], id)
  call('HDEL', K[2], id)
end
return 1
