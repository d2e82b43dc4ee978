#!/bin/sh
# A stand-in for a real backup: packs a folder, slowly enough to be watched from another terminal.
set -eu
target="${TMPDIR:-/tmp}/leasehold-example-backup.tar.gz"
echo "backing up $(basename "$PWD") as run number $LEASEHOLD_TOKEN"
tar -czf "$target.$LEASEHOLD_TOKEN" README.md
i=10
while [ "$i" -gt 0 ]; do
    echo "  $i …"
    sleep 1
    i=$((i - 1))
done
# In place at once, or not at all.
mv "$target.$LEASEHOLD_TOKEN" "$target"
echo "done: $target"
