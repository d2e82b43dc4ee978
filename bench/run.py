#!/usr/bin/env python3
"""Runs the programs of this folder against a Redis of its own, in turn, and shows medians. See README.md."""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import report

HERE = os.path.dirname(os.path.abspath(__file__))
RUST = ["raw", "leasehold", "rslock", "distributed-lock"]
PYTHON = ["redis-py", "python-redis-lock", "sherlock", "pottery"]
NODE = ["redlock", "redis-semaphore"]


def programs(options):
    """How the program of each library is called."""
    return {
        **dict.fromkeys(RUST, [options.rust]),
        **dict.fromkeys(PYTHON, [options.python, f"{HERE}/python/peers.py"]),
        **dict.fromkeys(NODE, [options.node, f"{HERE}/node/peers.js"]),
    }


def suites():
    """Of each suite: (label, library, arguments). The first is what the ratios are of."""
    everybody = RUST + PYTHON + NODE
    slow = {"pottery": 1000, "sherlock": 2000}
    all_suites = {"pair": [(lib, lib, ["pair", f"n={slow.get(lib, 3000)}"]) for lib in everybody]}
    for workers in (2, 10, 100):
        able = [lib for lib in everybody if lib != "pottery" or workers < 100]
        contend = ["contend", f"workers={workers}", "limit_s=25"]
        all_suites[f"contend{workers}"] = [(lib, lib, contend) for lib in able]
    # A hundred waiters, each of whom takes the lock once.
    drain = ["contend", "workers=100", "sections=100", "quota=1", "limit_s=25"]
    all_suites["drain100"] = [(lib, lib, drain) for lib in everybody if lib != "pottery"]
    renewing = ["leasehold", "rslock", "python-redis-lock", "redlock", "redis-semaphore"]
    all_suites["renew"] = [
        (f"{lib} {locks}", lib, ["renew", f"locks={locks}", f"ttl={ttl}", "secs=10"])
        for locks, ttl in ((1000, 3), (10000, 9))
        for lib in renewing
        if lib != "python-redis-lock" or locks == 1000  # a thread for each: ten thousand don't get done
    ]
    return all_suites


def start_redis(options, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", options.port))
        port = free.getsockname()[1]
    command = [options.redis_server, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
    server = subprocess.Popen(command + ["--maxclients", "2000"], stdout=subprocess.DEVNULL)
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server, port
        except OSError:
            time.sleep(0.01)
    sys.exit("redis-server does not start")


def pin(server, options):
    """The server on one CPU and the clients on another: left to wander, one program looks twice as slow as its twin."""
    cpus = sorted(os.sched_getaffinity(0))
    if options.no_pin or len(cpus) < 2:
        return
    for thread in os.listdir(f"/proc/{server.pid}/task"):
        os.sched_setaffinity(int(thread), {cpus[0]})
    os.sched_setaffinity(0, {cpus[1]})  # whatever is started from here on, too


def run(command):
    """The figures that a program told, or none."""
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return json.loads(told.stdout.strip().splitlines()[-1])
    except (subprocess.SubprocessError, OSError, ValueError, IndexError) as error:
        why = getattr(error, "stderr", None) or error
        print("failed:", " ".join(command[-6:]), str(why)[-200:], file=sys.stderr)
        return None


def options():
    venv = f"{HERE}/.venv/bin/python"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="+", choices=[*suites(), "all"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="these libraries, with commas between")
    parser.add_argument("--out", default=f"{HERE}/results.jsonl", help="where every figure is kept")
    parser.add_argument("--port", type=int, default=0, help="of the Redis; default: any free one")
    parser.add_argument("--no-pin", action="store_true", help="leave the CPUs to the scheduler")
    parser.add_argument("--redis-server", default="redis-server")
    target = os.environ.get("CARGO_TARGET_DIR", f"{HERE}/rust/target")
    parser.add_argument("--rust", default=f"{target}/release/locks")
    parser.add_argument("--python", default=venv if os.path.exists(venv) else sys.executable)
    parser.add_argument("--node", default=shutil.which("node") or "node")
    return parser.parse_args()


def main():
    opts = options()
    wanted = list(suites()) if "all" in opts.suites else opts.suites
    only = opts.only.split(",") if opts.only else RUST + PYTHON + NODE
    call = programs(opts)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        server, port = start_redis(opts, folder)
        try:
            pin(server, opts)
            for number in range(opts.rounds):
                for suite in wanted:
                    for label, lib, arguments in suites()[suite]:
                        if lib not in only:
                            continue
                        told = run([*call[lib], *arguments, f"lib={lib}", f"url=redis://127.0.0.1:{port}"])
                        if told is None:
                            continue
                        told.update(label=label, suite=suite, round=number, load=os.getloadavg()[0])
                        with open(opts.out, "a", encoding="utf-8") as out:
                            out.write(json.dumps(told) + "\n")
                        results.setdefault((suite, label), []).append(told)
        finally:
            server.kill()
            server.wait()
    report.show(results)


if __name__ == "__main__":
    main()
