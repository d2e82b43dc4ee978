-- KEYS the namespace's     ARGV life cursor pattern count
-- life, since when it is full for every name|'', floor|'', the next cursor, and the keys of a page
local own = call('HMGET', K[1], 'founded', 'whole', 'floor')
local page = call('SCAN', A[2], 'MATCH', A[3], 'COUNT', A[4])
local told = { A[1], own[1] == A[1] and (own[2] or '0') or '', own[3] or '', page[1] }
for _, key in ipairs(page[2]) do told[#told + 1] = key end
return told
