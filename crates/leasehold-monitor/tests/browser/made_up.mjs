// A fleet that doesn't exist: what the API would say of it.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const iso = (at) => new Date(at).toISOString().replace('.000', '');

/** Numbers that look random, the same each time. */
function chance(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

export const HOSTILE = [
  '<script>window.hacked = 1</script>',
  '<img src=x onerror="window.hacked = 1">',
  '"><svg onload=window.hacked=1>',
  'javascript:window.hacked=1',
  '</title><style>body{display:none}</style>',
  '__proto__',
  'a/b/../%2F?x=1#y',
  'מנעול/גיבוי/لقفل',
  'report-\u202Egnp.exe',
  'n'.repeat(200),
  ' ',
];

const who = (host, pid, job, id = null) => ({ id: id ?? `${pid}`.padStart(32, '0'), label: `${host}/${pid}/${job}`, host, library: null });

export function lock(name, more = {}) {
  return { name, state: 'held', holder: who('web-1', 4711, name.slice(0, 40)), token: '3488217120342016', held_for_ms: 12_000, remaining_ms: 27_000, permits: 1, others: [], waiting: 0, ...more };
}

const HOSTS = ['web-1', 'web-2', 'web-3', 'batch-eu-1', 'batch-eu-2', 'db-2'];

export function someLocks() {
  const random = chance(7);
  const names = ['billing/nightly', 'billing/invoices', 'search/reindex', 'backup', 'mail/digest', 'import/eu', 'import/us', 'cache/warm', 'reports/weekly', 'migrations', 'tenant/4711/export', 'tenant/90210/export', 'thumbnails', 'ledger/close'];
  const locks = names.map((name, nth) => {
    const host = HOSTS[Math.floor(random() * HOSTS.length)];
    return lock(name, { holder: who(host, 1000 + nth * 37, name), token: String(3488217120342016 + nth * 4096), held_for_ms: Math.floor(random() ** 4 * 9e6) + 800, remaining_ms: Math.floor(random() * 28_000) + 1500 });
  });
  Object.assign(locks[0], { waiting: 3 });
  Object.assign(locks[2], { waiting: 1, state: 'revoked' });
  Object.assign(locks[5], { permits: 3, others: [{ ...who('batch-eu-2', 812, 'import/eu', 'a'.repeat(32)), token: '12', held_for_ms: 4000, remaining_ms: 9000, revoked: false }] });
  Object.assign(locks[7], { holder: { id: null, label: 'foreign: 4c1b9b6e', host: null, library: 'redis-py' }, held_for_ms: null });
  Object.assign(locks[8], { state: 'kept', holder: null, held_for_ms: null, remaining_ms: 41_000 });
  Object.assign(locks[9], { remaining_ms: null, waiting: 12, holder: who('web-2', 77, 'migrations') });
  return locks;
}

const waiter = (name, host, pid, waited, by) => ({ name, waiter: { label: `${host}/${pid}/${name}`, waited_ms: waited }, holder: by });

export function someWaits() {
  const by = { label: 'web-3/1000/billing/nightly' };
  return [
    waiter('billing/nightly', 'web-1', 512, 94_000, by),
    waiter('billing/nightly', 'batch-eu-1', 77, 31_000, by),
    waiter('billing/nightly', 'web-2', 9001, 2_100, by),
    waiter('search/reindex', 'web-3', 1000, 8_000, { label: 'web-2/4/search/reindex' }),
    ...Array.from({ length: 12 }, (_, nth) => waiter('migrations', `web-${nth + 1}`, 100 + nth, nth % 3 ? 4000 * (12 - nth) : null, { label: 'web-2/77/migrations' })),
  ];
}

const quantiles = (p50, p90, p99, max) => ({ p50_ms: p50, p90_ms: p90, p99_ms: p99, max_ms: max });

const counted = (name, attempts, contended, waited, held, more = {}) => ({
  name, attempts, acquired: attempts - Math.floor(contended / 3), contended, contended_share: attempts ? contended / attempts : 0, waited, held,
  longest: [{ label: `web-2/77/${name}`, held_ms: held?.max_ms ?? 0, at: iso(Date.now() - 20 * MINUTE) }], prevented: { marks: 0, fences: 0 }, lost: 0, overdue: 0, late_releases: 0, failed: 0, renewals: { renewed: 220, failed: 3, late: quantiles(1, 4, 9, 21), least_margin: 0.61 }, limit_ms: null, runs: null, ...more,
});

export function someContention(since) {
  const length = { '15m': 15 * MINUTE, '1h': HOUR, '6h': 6 * HOUR, '24h': DAY, '168h': 7 * DAY }[since] ?? HOUR;
  const step = length > 12 * HOUR ? HOUR : 5 * MINUTE;
  const until = Math.floor(Date.now() / step) * step;
  const random = chance(3);
  const series = Array.from({ length: length / step }, (_, nth) => {
    const busy = 1.1 + Math.sin(nth / 3) + (nth % 31 > 7 && nth % 31 < 10 ? 2.2 : 0);
    const attempts = nth % 40 === 5 ? 0 : Math.floor(120 * busy + random() * 60);
    const contended = Math.floor(attempts * Math.min(0.8, 0.08 + busy * 0.12 * random()));
    return { at: iso(until - length + nth * step), attempts, contended, waited_p90_ms: contended > 6 ? Math.floor(300 * busy * (1 + random())) : null };
  });
  const locks = [
    counted('billing/nightly', 4211, 1830, quantiles(220, 1900, 8200, 31_000), quantiles(1200, 4100, 9000, 41_000), { prevented: { marks: 14, fences: 1 } }),
    counted('migrations', 180, 169, quantiles(30_000, 94_000, 180_000, 241_000), quantiles(52_000, 61_000, 62_000, 62_000), { lost: 2, late_releases: 1 }),
    counted('cache/warm', 12_040, 311, quantiles(12, 40, 95, 400), quantiles(8, 21, 60, 210)),
    counted('search/reindex', 96, 11, quantiles(900, 2400, 2900, 3000), quantiles(600_000, 1_400_000, 1_900_000, 2_000_000), { failed: 4 }),
    counted('import/eu', 77, 0, null, quantiles(400, 900, 1200, 1300)),
  ];
  return { since: iso(until - length), until: iso(until), step_ms: step, locks, others: null, series, is_cut: false };
}

const run = (job, tick, node, delay, took, more = {}) => ({
  job, tick: tick === null ? null : iso(tick), asked: null, state: 'done', node: `${node}/${1200 + node.length}/${job}`, started: iso((tick ?? 0) + delay), ended: iso((tick ?? 0) + delay + took),
  written: iso((tick ?? 0) + delay + took), attempts: 1, token: '3488217120342016', reason: null, output: '', ...more,
});

const notRun = (job, tick, state, reason) => run(job, tick, 'web-2', 0, 0, { state, started: null, ended: null, attempts: 0, token: null, reason });

export const JOBS = [
  { name: 'backup', when: '30 2 * * *', zone: 'Europe/Berlin' },
  { name: 'billing/nightly', when: '*/20 * * * *', zone: 'UTC' },
  { name: 'heartbeat', when: '@every 5m', zone: 'UTC' },
  { name: 'mail/digest', when: '0 */2 * * *', zone: 'America/New_York' },
  { name: 'search/reindex', when: '15 * * * *', zone: 'UTC' },
];

const last = (step, shift = 0) => Math.floor((Date.now() - shift) / step) * step + shift;

export function someRuns() {
  const random = chance(11);
  const runs = [];
  const nodes = ['web-1', 'web-2', 'batch-eu-1'];
  const node = () => nodes[Math.floor(random() * nodes.length)];
  for (let nth = 1; nth < 80; nth++) runs.push(run('heartbeat', last(5 * MINUTE) - nth * 5 * MINUTE, node(), 200, 20_000 + random() * 30_000));
  for (let nth = 1; nth < 30; nth++) {
    const tick = last(20 * MINUTE) - nth * 20 * MINUTE;
    if (nth === 4 || nth === 5) runs.push(notRun('billing/nightly', tick, 'missed', 'no scheduler was there'));
    else if (nth === 9) runs.push(notRun('billing/nightly', tick, 'skipped', 'it was still running'));
    else if (nth === 12) runs.push(run('billing/nightly', tick, node(), 400, 5 * MINUTE, { state: 'failed', reason: 'exit code 1', attempts: 3, output: 'fetching 40 accounts\nerror: <b>upstream</b> timed out\n' }));
    else if (nth === 14) runs.push(run('billing/nightly', tick, 'batch-eu-2', 400, 0, { state: 'gone', ended: null }));
    else runs.push(run('billing/nightly', tick, node(), 400, (nth === 10 ? 24 : 6 + random() * 5) * MINUTE));
  }
  runs.push(run('billing/nightly', last(20 * MINUTE), 'web-1', 300, 0, { state: 'running', ended: null }));
  for (let nth = 0; nth < 8; nth++) {
    const tick = last(HOUR, 15 * MINUTE) - nth * HOUR;
    if (tick + 35 * MINUTE < Date.now()) runs.push(run('search/reindex', tick, nodes[nth % 3], 900, 34 * MINUTE, nth === 2 ? { state: 'lost', reason: 'its lease was revoked' } : {}));
  }
  // One that goes on although its lock was lost, and the next beside it.
  runs.push(run('search/reindex', last(HOUR, 15 * MINUTE) - 3 * HOUR - 20 * MINUTE, 'web-1', 0, 40 * MINUTE, { tick: null, asked: 'anna: index was stale' }));
  runs.push({ ...run('mail/digest', last(2 * HOUR) - HOUR, 'anna@laptop', 0, 0), tick: null, state: 'paused', reason: 'provider is down', attempts: 0, token: null });
  for (let nth = 0; nth < 60; nth++) runs.push(run('backup', Date.UTC(2026, 9, 31, 1, 30) - nth * DAY, nodes[nth % 3], 1000, 50 * MINUTE));
  return runs.sort((a, b) => (a.written < b.written ? 1 : -1));
}

/** Ticks after `from`, so many: near enough for a picture. */
export function ticksOf(name, from, n) {
  const [step, shift] = { backup: [DAY, 1.5 * HOUR], 'billing/nightly': [20 * MINUTE, 0], heartbeat: [5 * MINUTE, 0], 'mail/digest': [2 * HOUR, 0], 'search/reindex': [HOUR, 15 * MINUTE] }[name] ?? [HOUR, 0];
  const first = Math.floor((from - shift) / step + 1) * step + shift;
  return Array.from({ length: n }, (_, nth) => first + nth * step);
}

export function someJobs(runs) {
  return JOBS.map((job) => ({
    ...job,
    since: iso(Date.now() - 40 * DAY),
    paused: job.name === 'mail/digest' ? { by: 'anna@laptop', why: 'provider is down', since: iso(Date.now() - HOUR), until: iso(Date.now() + 2 * HOUR) } : null,
    next: ticksOf(job.name, Date.now(), 3).map(iso),
    last: runs.find((run) => run.job === job.name && run.tick && run.state !== 'running') ?? null,
    running: runs.filter((run) => run.job === job.name && run.state === 'running'),
  }));
}

export function nextOf(job, from, n) {
  const zone = JOBS.find(({ name }) => name === job)?.zone ?? 'UTC';
  const local = new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' });
  const ticks = ticksOf(job, from, n).map((at, nth) => ({ utc: iso(at), local: `${local.format(at).replace(' ', 'T')}+01:00`, odd: nth === 3 ? 'clocks go from 02:00:00 to 03:00 now' : null }));
  return { job, when: JOBS.find(({ name }) => name === job)?.when ?? '', zone, ticks };
}

export function someStore() {
  return {
    kind: 'fallback', shown: 'redis://cache.example.com, postgres://db.example.com/jobs', reachable: true, latency_ms: 0.62, error: null, route: { epoch: '3', target: 'primary', state: 'in_force', since_ms: 4 * HOUR, in_ms: null, complained_ms: null, primary: 'redis://cache.example.com' },
    findings: [
      { severity: 'fine', subject: 'clock', message: 'the server’s clock is right within 40 ms', fix: null },
      { severity: 'warning', subject: 'persistence', message: 'appendfsync is everysec: a crash may forget the last second', fix: 'set restart_guard, or appendfsync always' },
      { severity: 'problem', subject: 'eviction', message: 'maxmemory-policy is allkeys-lru: a lock may be thrown away while it is held', fix: 'CONFIG SET maxmemory-policy noeviction' },
      { severity: 'fine', subject: 'rights', message: 'all commands that are needed are allowed', fix: null },
    ],
    findings_at: iso(Date.now() - 30_000),
  };
}

export function fleet() {
  const runs = someRuns();
  return { locks: someLocks(), waits: someWaits(), runs, jobs: someJobs(runs), contention: someContention, store: someStore(), token: 'a-token-for-tests-only', acts: [] };
}

/** Of a store in which nothing has happened yet. */
export function nobody() {
  const none = { since: iso(Date.now() - HOUR), until: iso(Date.now()), step_ms: MINUTE, locks: [], series: [] };
  return { ...fleet(), locks: [], waits: [], runs: [], jobs: [], contention: () => none, store: { ...someStore(), kind: 'sqlite', shown: 'sqlite:///var/lib/leasehold/locks.db', route: null, findings: [], findings_at: null } };
}
