-- ARGV waiter channel-prefix(see pass_on)     Out of the queue; what was granted meanwhile is free again, its work never begun.
--@clock
--@standing
--@queue
--@ending

local waited = forget_waiter(A[1]) > 0
judge(A[1], 'unstarted', '')
if free(A[1], 0) or waited then pass_on(A[2]) end
return 1
