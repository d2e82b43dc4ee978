"""A worker that locks with another library: LIBRARY URL, then a command a line, and an answer a line, after "= ".

acquire NAME TTL WAIT   yes or no; milliseconds, a TTL of 0 never ends
extend TTL              yes or no
release                 yes or no
rounds NAME COUNT DIR   done, once either side had so many, or what went wrong
"""

import asyncio
import os
import random
import sys
import time

import pottery
import redis
import redis.asyncio
import redis_lock

from shedlock import ShedLock

TTL = 20_000
LONG = 120_000


class RedisPy:
    def __init__(self, url):
        self.client = redis.Redis.from_url(url)

    def acquire(self, name, ttl, wait):
        self.lock = self.client.lock(name, timeout=ttl / 1000 or None, sleep=0.003)
        return self.lock.acquire(blocking=wait > 0, blocking_timeout=wait / 1000 if wait else None)

    def extend(self, ttl):
        return self.lock.extend(ttl / 1000, replace_ttl=True)

    def release(self):
        self.lock.release()
        return True


class RedisPyAsync:
    def __init__(self, url):
        self.loop = asyncio.new_event_loop()
        self.client = redis.asyncio.Redis.from_url(url)

    def acquire(self, name, ttl, wait):
        self.lock = self.client.lock(name, timeout=ttl / 1000 or None, sleep=0.003)
        return self.run(self.lock.acquire(blocking=wait > 0, blocking_timeout=wait / 1000 if wait else None))

    def extend(self, ttl):
        return self.run(self.lock.extend(ttl / 1000, replace_ttl=True))

    def release(self):
        self.run(self.lock.release())
        return True

    def run(self, what):
        return self.loop.run_until_complete(what)


class PythonRedisLock:
    def __init__(self, url):
        self.client = redis.StrictRedis.from_url(url)

    def acquire(self, name, ttl, wait):
        self.lock = redis_lock.Lock(self.client, name, expire=ttl // 1000 or None)
        # It waits no longer than its lock would last.
        timeout = min(wait // 1000, ttl // 1000 or wait) if wait else None
        return self.lock.acquire(blocking=wait > 0, timeout=timeout)

    def extend(self, ttl):
        self.lock.extend(expire=ttl // 1000)
        return True

    def release(self):
        self.lock.release()
        return True


class Pottery:
    def __init__(self, url):
        self.masters = {redis.Redis.from_url(url)}

    def acquire(self, name, ttl, wait):
        self.lock = pottery.Redlock(key=name, masters=self.masters, auto_release_time=ttl / 1000)
        return self.lock.acquire(timeout=wait / 1000) if wait else self.lock.acquire(blocking=False)

    def extend(self, ttl):
        self.lock.extend()
        return True

    def release(self):
        self.lock.release()
        return True


def rounds(peer, name, count, directory):
    """Each round alone in the witness, or somebody else was let in beside us."""
    witness, order = os.path.join(directory, "inside"), os.path.join(directory, "order")
    enough = False
    while not enough:
        while not peer.acquire(name, TTL, LONG):
            pass
        os.close(os.open(witness, os.O_CREAT | os.O_EXCL))
        with open(order, "a+") as log:
            log.write("theirs\n")
            log.seek(0)
            lines = log.read().split()
        enough = all(lines.count(side) >= count for side in ("ours", "theirs"))
        time.sleep(0.001)
        os.unlink(witness)
        if not peer.release():
            return "a release was refused"
        time.sleep(random.uniform(0, 0.008))
    return "done"


# What the libraries say when a lock is no longer theirs.
NOT_OURS = (
    redis.exceptions.LockError,
    redis_lock.NotAcquired,
    pottery.ReleaseUnlockedLock,
    pottery.ExtendUnlockedLock,
)


def answer(peer, command, arguments):
    if command == "rounds":
        name, count, directory = arguments
        return rounds(peer, name, int(count), directory)
    arguments = [int(argument) if argument.isdigit() else argument for argument in arguments]
    try:
        return "yes" if getattr(peer, command)(*arguments) else "no"
    except NOT_OURS:
        return "no"


def main(library, url):
    peers = {
        "redis-py": RedisPy,
        "redis-py-async": RedisPyAsync,
        "python-redis-lock": PythonRedisLock,
        "pottery": Pottery,
        "shedlock": ShedLock,
        "shedlock-seoul": lambda url: ShedLock(url, "Asia/Seoul"),
        "shedlock-new-york": lambda url: ShedLock(url, "America/New_York"),
    }
    peer = peers[library](url)
    for line in sys.stdin:
        command, *arguments = line.split()
        try:
            print("=", answer(peer, command, arguments), flush=True)
        except Exception as error:
            print("=", repr(error).replace("\n", " "), flush=True)


main(*sys.argv[1:])
