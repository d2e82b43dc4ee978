#!/bin/sh
# Four scenes with locks, as a shell sees them. The output is the same each time: see scenes.txt.
set -u
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LEASEHOLD_STORE="sqlite://$dir/locks.db"

# Waits until a job says that it runs.
until_exists() { while [ ! -e "$dir/$1" ]; do sleep 0.02; done; }
state() { leasehold status "$1" --json | sed -n 's/.*"state": "\(.*\)".*/\1/p'; }

echo '1. Two workers wait for one lock: the second begins when the first has released.'
leasehold run report --wait -- sh -c "touch $dir/one; sleep 0.5; echo '   first is done'" &
until_exists one
leasehold run report --wait --quiet -- echo '   second begins'
wait

echo '2. A job runs longer than its TTL; who waits for half of one gives up, the job goes on.'
leasehold run import --ttl 2s -- sh -c "touch $dir/two; sleep 3; echo '   the long job is done'" &
until_exists two
leasehold run import --ttl 2s --wait=1s -- echo 'never' 2>"$dir/told"
echo "   gave up with $?: $(sed '$!d; s/held by .*; /held by …; /; s/^leasehold: //' "$dir/told")"
wait

echo '3. Two workers try once: one works, the other is told who has it.'
leasehold run backup -- sh -c "touch $dir/three; while [ ! -e $dir/enough ]; do sleep 0.02; done" &
until_exists three
leasehold run backup -- echo 'never' 2>"$dir/told"
echo "   left with $?: $(sed '$!d; s/held by .*; /held by …; /; s/^leasehold: //' "$dir/told")"
touch "$dir/enough"
wait
leasehold run backup -- echo '   free again'

echo '4. Whatever way a job ends, its lock is free.'
leasehold run scope -- true
echo "   success: $?, then $(state scope)"
leasehold run scope -- sh -c 'exit 3'
echo "   failure: $?, then $(state scope)"
leasehold run scope -- sh -c 'kill -9 $$'
echo "   killed: $?, then $(state scope)"
leasehold run scope -- /no/such/program 2>/dev/null
echo "   not started: $?, then $(state scope)"
leasehold run scope -- sh -c "touch $dir/four; sleep 60" &
until_exists four
kill -TERM $!
wait $!
echo "   interrupted: $?, then $(state scope)"
