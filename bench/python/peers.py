"""Python lock libraries: peers.py pair|contend|renew lib=NAME url=URL key=value… One line of JSON; see ../README.md."""

import json
import os
import resource
import sys
import threading
import time

import redis

CASE = sys.argv[1]
ARGS = dict(argument.split("=", 1) for argument in sys.argv[2:])
LIB = ARGS["lib"]
TTL = 30


def number(name, otherwise):
    return float(ARGS.get(name, otherwise))


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def client():
    connected = redis.Redis.from_url(ARGS["url"])
    connected.ping()
    return connected


def maker(connection):
    """What makes a lock of a name, with the library's default delay between tries."""
    if LIB == "redis-py":
        return lambda name: connection.lock(name, timeout=TTL)
    if LIB == "python-redis-lock":
        import redis_lock

        return lambda name: redis_lock.Lock(connection, name, expire=TTL)
    if LIB == "pottery":
        import pottery

        return lambda name: pottery.Redlock(
            key=name, masters={connection}, auto_release_time=TTL, context_manager_blocking=True
        )
    if LIB == "sherlock":
        import sherlock

        return lambda name: sherlock.RedisLock(name, client=connection, expire=TTL, timeout=1e9)
    sys.exit(f"no library is called {LIB}")


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0


def commands(server, by):
    stats = server.info("commandstats").items()
    shown = [f"{name[8:]} {told['calls'] / by:.2f}" for name, told in stats if "info" not in name and "config" not in name]
    return ", ".join(shown)


def pair():
    """One lock taken and given back, again and again; a new object each time, as a job has."""
    pairs, make, times = int(number("n", 3000)), maker(client()), []
    for at in range(pairs // 10 + pairs):
        if at == pairs // 10:
            used, began = cpu(), time.perf_counter()
        since = time.perf_counter()
        lock = make("pair")
        assert lock.acquire() is not False
        lock.release()
        times.append((time.perf_counter() - since) * 1e6)
    total, times = time.perf_counter() - began, times[pairs // 10 :]
    return {
        "n": pairs,
        "ops_s": round(pairs / total, 1),
        "p50_us": round(quantile(times, 0.5), 1),
        "p99_us": round(quantile(times, 0.99), 1),
        "cpu_s_10k": round((cpu() - used) / pairs * 1e4, 4),
    }


class Board:
    """Who held the one lock when, and how often somebody else did, too."""

    def __init__(self, sections):
        self.left, self.mutex, self.log, self.inside, self.violations = sections, threading.Lock(), [], 0, 0

    def take(self):
        with self.mutex:
            self.left -= 1
            return self.left >= 0

    def section(self, hold, who):
        entered = time.perf_counter()
        self.violations += self.inside
        self.inside = 1
        time.sleep(hold)
        self.inside = 0
        self.log.append((entered, time.perf_counter(), who))


def work(board, who, each, hold, start, until):
    make = maker(client())
    start.wait()
    for _ in range(each):
        if time.time() > until() or not board.take():
            return
        lock = make("busy")
        while True:
            try:
                if lock.acquire() is not False:
                    break
            except Exception:  # it gave up
                if time.time() > until():
                    return
        board.section(hold, who)
        lock.release()


def contend():
    """One lock; workers with a connection each, which stand for processes."""
    workers, sections, limit = int(number("workers", 10)), int(number("sections", 1000)), number("limit_s", 60)
    each = sections // workers if ARGS.get("quota") == "1" else sections
    board, start, server = Board(sections), threading.Barrier(workers + 1), client()
    server.flushall()
    end = [time.time() + 3600]
    threads = [
        threading.Thread(
            target=work, args=(board, who, each, number("hold_ms", 1) / 1e3, start, lambda: end[0]), daemon=True
        )
        for who in range(workers)
    ]
    for thread in threads:
        thread.start()
    server.config_resetstat()
    end[0] = time.time() + limit
    start.wait()
    used, began = cpu(), time.perf_counter()
    for thread in threads:
        thread.join(limit + 10)
    total = time.perf_counter() - began
    reads = server.info("stats")["total_reads_processed"] - 1
    log = sorted(board.log)
    shares = [sum(1 for entry in log if entry[2] == who) for who in range(workers)]
    gaps = [(max(0, b[0] - a[1]) * 1e6, a[2] != b[2]) for a, b in zip(log, log[1:])]
    cross = [gap for gap, other in gaps if other]
    every = [gap for gap, _ in gaps]
    return {
        "workers": workers,
        "n": len(log),
        "total_s": round(total, 3),
        "held_s": round(sum(to - since for since, to, _ in log), 3),
        "handover_p50_us": round(quantile(every, 0.5), 1),
        "handover_p99_us": round(quantile(every, 0.99), 1),
        "cross_p50_us": round(quantile(cross, 0.5), 1),
        "cross_p99_us": round(quantile(cross, 0.99), 1),
        "min": min(shares),
        "max": max(shares),
        "same_worker": len(every) - len(cross),
        "violations": board.violations,
        "cpu_s": round(cpu() - used, 3),
        "wire_per_section": round(reads / max(1, len(log)), 2),
        "cmds": commands(server, max(1, len(log))),
    }


def renew():
    """Locks held for a while, each renewed by a thread of its own."""
    import redis_lock

    locks, secs, ttl = int(number("locks", 1000)), number("secs", 10), int(number("ttl", 3))
    connection, held = redis.Redis.from_url(ARGS["url"], max_connections=20000), []
    connection.flushall()
    threading.stack_size(256 * 1024)
    began = time.time()
    for lock in range(locks):
        held.append(redis_lock.Lock(connection, f"r{lock}", expire=ttl, auto_renewal=True))
        held[-1].acquire()
    setup = time.time() - began
    connection.config_resetstat()
    server_cpu = lambda: sum(connection.info("cpu")[f"used_cpu_{kind}"] for kind in ("sys", "user"))
    theirs, used, began = server_cpu(), cpu(), time.time()
    time.sleep(secs)
    took = time.time() - began
    return {
        "locks": locks,
        "ttl": ttl,
        "setup_s": round(setup, 2),
        "reads_s": round(connection.info("stats")["total_reads_processed"] / took, 1),
        "cmds": commands(connection, 1),
        "client_cpu_pct": round((cpu() - used) / took * 100, 2),
        "server_cpu_pct": round((server_cpu() - theirs) / took * 100, 2),
        "alive": sum(1 for _ in connection.scan_iter("lock:r*", count=1000)),
    }


told = {"pair": pair, "contend": contend, "renew": renew}[CASE]()
print(json.dumps({"case": LIB, **told}), flush=True)
os._exit(0)  # what is held ends with the server
