#!/bin/sh
# Eight scenes with locks, as a shell sees them. The output is the same each time: see scenes.txt.
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
leasehold run import --ttl 4s --kill-after 1s -- sh -c "touch $dir/two; sleep 6; echo '   the long job is done'" &
until_exists two
leasehold run import --ttl 4s --wait=2s -- echo 'never' 2>"$dir/told"
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

echo '5. A nightly run is one run, however many machines start it and however late they come.'
for machine in 1 2 3; do
  leasehold run nightly --once-per '0 0 1 1 *' -- sh -c "echo '   machine $machine runs it'" 2>"$dir/told"
  echo "   machine $machine: $?$(sed 's/.*\(has had its run; not run\)/, \1/' "$dir/told")"
done

echo '6. A piece of work is done once; if it fails it is tried again.'
for delivery in 1 2 3; do
  leasehold run billing --once-key invoice-2931 --retry-failed -- sh -c '[ "$LEASEHOLD_ATTEMPT" -gt 1 ]' 2>"$dir/told"
  echo "   delivery $delivery: $?$(sed 's/.*\(has had its run; not run\)/, \1/' "$dir/told")"
done

echo '7. Two at a time, and no more.'
pool='leasehold run pool --permits 2'
$pool -- sh -c "touch $dir/seven-1; while [ ! -e $dir/go ]; do sleep 0.02; done; echo '   one of two is done'" &
$pool -- sh -c "touch $dir/seven-2; while [ ! -e $dir/go ]; do sleep 0.02; done; echo '   one of two is done'" &
until_exists seven-1
until_exists seven-2
$pool -- echo 'never' 2>/dev/null
echo "   a third: $?"
touch "$dir/go"
wait
$pool -- echo '   a third, now'

echo '8. Two locks at once: both or none, in whatever order they are asked for.'
leasehold run stock --also orders --wait -q -- echo '   one has both' &
leasehold run orders --also stock --wait -q -- echo '   one has both' &
wait
leasehold run orders -- sh -c "leasehold run stock --also orders -- echo never 2>/dev/null; echo \"   one is held: \$?, and the other is \$(leasehold status stock --json | sed -n 's/.*\"state\": \"\(.*\)\".*/\1/p')\""
