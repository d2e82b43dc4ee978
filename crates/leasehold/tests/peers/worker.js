// A worker that locks with another library; speaks as worker.py does.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");
const { Redis } = require("ioredis");
const { Mutex } = require("redis-semaphore");
const { default: Redlock, ExecutionError } = require("redlock");

const TTL = 20_000;
const LONG = 120_000;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class NodeRedlock {
  constructor(url) {
    this.redlock = new Redlock([new Redis(url)], { retryDelay: 4, retryJitter: 3 });
  }

  async acquire(name, ttl, wait) {
    this.lock = await this.redlock.acquire([name], ttl, { retryCount: Math.ceil(wait / 4) });
    return true;
  }

  async extend(ttl) {
    this.lock = await this.redlock.extend(this.lock, ttl, { retryCount: 0 });
    return true;
  }

  async release() {
    await this.redlock.release(this.lock, { retryCount: 0 });
    return true;
  }
}

class RedisSemaphore {
  constructor(url) {
    this.client = new Redis(url);
  }

  async acquire(name, ttl, wait) {
    const limits = wait ? { acquireTimeout: wait } : { acquireAttemptsLimit: 1 };
    this.mutex = new Mutex(this.client, name, { lockTimeout: ttl, retryInterval: 4, refreshInterval: 0, ...limits });
    return this.mutex.tryAcquire();
  }

  // What its timer does.
  async extend() {
    return this.mutex._refresh();
  }

  // It doesn't say whether it was its own.
  async release() {
    const held = await this.mutex._refresh();
    await this.mutex.release();
    return held;
  }
}

// Each round alone in the witness, or somebody else was let in beside us.
async function rounds(peer, name, count, directory) {
  const [witness, order] = [path.join(directory, "inside"), path.join(directory, "order")];
  for (let enough = false; !enough; ) {
    while (!(await peer.acquire(name, TTL, LONG)));
    fs.closeSync(fs.openSync(witness, "wx"));
    fs.appendFileSync(order, "theirs\n");
    const lines = fs.readFileSync(order, "utf8").split("\n");
    enough = ["ours", "theirs"].every((side) => lines.filter((line) => line === side).length >= count);
    await pause(1);
    fs.unlinkSync(witness);
    if (!(await peer.release())) return "a release was refused";
    await pause(Math.random() * 8);
  }
  return "done";
}

async function answer(peer, command, words) {
  if (command === "rounds") return rounds(peer, words[0], Number(words[1]), words[2]);
  const values = words.map((word) => (/^\d+$/.test(word) ? Number(word) : word));
  try {
    return (await peer[command](...values)) ? "yes" : "no";
  } catch (error) {
    if (error instanceof ExecutionError) return "no";
    throw error;
  }
}

async function main(library, url) {
  const peer = new { "node-redlock": NodeRedlock, "redis-semaphore": RedisSemaphore }[library](url);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...words] = line.trim().split(" ");
    let said;
    try {
      said = await answer(peer, command, words);
    } catch (error) {
      said = String(error).replaceAll("\n", " ");
    }
    process.stdout.write(`= ${said}\n`);
  }
  process.exit(0);
}

main(...process.argv.slice(2));
