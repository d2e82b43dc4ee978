// Node lock libraries: node peers.js pair|contend|renew lib=NAME url=URL key=value… One line of JSON; see ../README.md.
const { Redis } = require('ioredis');
const { default: Redlock } = require('redlock');
const { Mutex } = require('redis-semaphore');

const [kind, ...rest] = process.argv.slice(2);
const args = Object.fromEntries(rest.map((argument) => argument.split(/=(.*)/s)));
const number = (name, otherwise) => Number(args[name] ?? otherwise);
const TTL = 30000;

const client = () => new Redis(args.url);
const micros = () => Number(process.hrtime.bigint()) / 1e3;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const cpu = () => {
  const used = process.cpuUsage();
  return (used.user + used.system) / 1e6;
};
const round = (value, digits) => Number(value.toFixed(digits));
const quantile = (values, share) => {
  values.sort((a, b) => a - b);
  return values.length ? values[Math.min(values.length - 1, Math.floor(values.length * share))] : 0;
};

// What takes a lock of a name and answers how to give it back, with the library's default delay between tries.
function taker(redis, forEver) {
  if (args.lib === 'redlock') {
    const redlock = new Redlock([redis], forEver ? { retryCount: -1 } : {});
    redlock.on('error', () => {});
    return async (name) => {
      const lock = await redlock.acquire([name], TTL);
      return () => lock.release();
    };
  }
  return async (name) => {
    const mutex = new Mutex(redis, name, { lockTimeout: TTL, acquireTimeout: 600000 });
    await mutex.acquire();
    return () => mutex.release();
  };
}

async function said(server, by) {
  const [commands, stats] = [await server.info('commandstats'), await server.info('stats')];
  const calls = [...commands.matchAll(/cmdstat_([^:]+):calls=(\d+)/g)].filter(([, name]) => !/info|config/.test(name));
  return {
    reads: Number(/total_reads_processed:(\d+)/.exec(stats)[1]) - 2,
    cmds: calls.map(([, name, count]) => `${name} ${(count / by).toFixed(2)}`).join(', '),
  };
}

// One lock taken and given back, again and again.
async function pair() {
  const pairs = number('n', 5000);
  const take = taker(client(), false);
  const times = [];
  let [used, began] = [0, 0];
  for (let at = -Math.floor(pairs / 10); at < pairs; at++) {
    if (at === 0) [used, began] = [cpu(), micros()];
    const since = micros();
    const release = await take('pair');
    await release();
    if (at >= 0) times.push(micros() - since);
  }
  const total = (micros() - began) / 1e6;
  return {
    n: pairs,
    ops_s: round(pairs / total, 1),
    p50_us: round(quantile(times, 0.5), 1),
    p99_us: round(quantile(times, 0.99), 1),
    cpu_s_10k: round(((cpu() - used) / pairs) * 1e4, 4),
  };
}

// One lock; workers with a connection each, which stand for processes.
async function contend() {
  const [workers, sections, hold] = [number('workers', 10), number('sections', 1000), number('hold_ms', 1)];
  const each = args.quota === '1' ? Math.floor(sections / workers) : sections;
  const server = client();
  await server.flushall();
  const clients = [];
  for (let me = 0; me < workers; me++) {
    clients.push(client());
    await clients[me].ping();
  }
  await server.config('RESETSTAT');
  const log = [];
  let [left, inside, violations] = [sections, 0, 0];
  const [used, began, until] = [cpu(), micros(), Date.now() + number('limit_s', 60) * 1000];
  const work = async (redis, me) => {
    const take = taker(redis, true);
    for (let turn = 0; turn < each && left > 0 && Date.now() < until; turn++) {
      left--;
      const release = await take('busy');
      const entered = micros();
      violations += inside;
      inside = 1;
      await sleep(hold);
      inside = 0;
      log.push([entered, micros(), me]);
      await release();
    }
  };
  await Promise.all(clients.map(work));
  const total = (micros() - began) / 1e6;
  const told = await said(server, log.length);
  log.sort((a, b) => a[0] - b[0]);
  const shares = Array(workers).fill(0);
  log.forEach(([, , me]) => shares[me]++);
  const gaps = log.slice(1).map((entry, at) => ({ gap: Math.max(0, entry[0] - log[at][1]), other: entry[2] !== log[at][2] }));
  const every = gaps.map(({ gap }) => gap);
  const cross = gaps.filter(({ other }) => other).map(({ gap }) => gap);
  return {
    workers,
    n: log.length,
    total_s: round(total, 3),
    held_s: round(log.reduce((sum, [from, to]) => sum + to - from, 0) / 1e6, 3),
    handover_p50_us: round(quantile(every, 0.5), 1),
    handover_p99_us: round(quantile(every, 0.99), 1),
    cross_p50_us: round(quantile(cross, 0.5), 1),
    cross_p99_us: round(quantile(cross, 0.99), 1),
    min: Math.min(...shares),
    max: Math.max(...shares),
    same_worker: every.length - cross.length,
    violations,
    cpu_s: round(cpu() - used, 3),
    wire_per_section: round(told.reads / log.length, 2),
    cmds: told.cmds,
  };
}

// Locks held for a while and renewed by the library.
async function hold(redis, locks, ttl) {
  if (args.lib === 'redlock') {
    const redlock = new Redlock([redis], { retryCount: 0, automaticExtensionThreshold: ttl / 3 });
    redlock.on('error', () => {});
    const using = (name) => new Promise((held) => {
      redlock.using([name], ttl, async () => {
        held();
        await sleep(1e6);
      }).catch(() => {});
    });
    for (let at = 0; at < locks; at++) await using(`r${at}`);
    return;
  }
  for (let at = 0; at < locks; at++) {
    await new Mutex(redis, `r${at}`, { lockTimeout: ttl, refreshInterval: ttl / 3, onLockLost() {} }).acquire();
  }
}

async function renew() {
  const [locks, secs, ttl] = [number('locks', 1000), number('secs', 10), number('ttl', 3) * 1000];
  const [redis, server] = [client(), client()];
  await server.flushall();
  const began = micros();
  await hold(redis, locks, ttl);
  const setup = (micros() - began) / 1e6;
  await server.config('RESETSTAT');
  const serverCpu = async () => {
    const info = await server.info('cpu');
    return Number(/used_cpu_sys:([\d.]+)/.exec(info)[1]) + Number(/used_cpu_user:([\d.]+)/.exec(info)[1]);
  };
  const [theirs, used, since] = [await serverCpu(), cpu(), micros()];
  await sleep(secs * 1000);
  const took = (micros() - since) / 1e6;
  const [usedNow, theirsNow, told] = [cpu(), await serverCpu(), await said(server, 1)];
  return {
    locks,
    ttl: ttl / 1000,
    setup_s: round(setup, 2),
    reads_s: round(told.reads / took, 1),
    cmds: told.cmds,
    client_cpu_pct: round(((usedNow - used) / took) * 100, 2),
    server_cpu_pct: round(((theirsNow - theirs) / took) * 100, 2),
    alive: await server.dbsize(),
  };
}

({ pair, contend, renew })[kind]().then((told) => {
  console.log(JSON.stringify({ case: args.lib, ...told }));
  process.exit(0); // what is held ends with the server
}).catch((error) => {
  console.error(error);
  process.exit(1);
});
