// From records of runs to what is drawn: groups of lanes of bars, and marks. Knows nothing of the page.

import { label } from './format.js';

/** Clocks of nodes differ by a little: less than this is no overlap. */
const SKEW = 1000;

/** How a tick that nobody knows anything of is waited for, before that is called a gap. */
const GRACE = 60_000;

/** States that are of a run, not of a tick that was not run, nor of what an operator did. */
const RAN = new Set(['running', 'done', 'failed', 'lost', 'stopped', 'gone']);

export const hasRun = ({ state }) => RAN.has(state);

export const isOfATick = ({ state }) => hasRun({ state }) || state === 'skipped' || state === 'missed';

/**
 * `by` is `job` (lanes are hosts) or `node` (lanes are jobs). `due` are ticks that should have been or will be, of the one job
 * that is looked at.
 */
export function timeline({ runs, jobs, due = [], from, to, now, by }) {
  const groups = new Map();
  const known = new Map(jobs.map((job) => [job.name, job]));
  const group = (name) => {
    if (!groups.has(name)) groups.set(name, { name, zones: new Set(), lanes: new Map(), marks: [], overlaps: [], pauses: [] });
    return groups.get(name);
  };
  if (by === 'job') jobs.forEach(({ name }) => group(name));
  const twice = overlaps(runs, now);
  const node = nodes(runs);
  for (const run of runs) {
    const its = group(by === 'job' ? run.job : node(run));
    if (hasRun(run)) lane(its, by === 'job' ? node(run) : run.job).push(bar(run, now, twice));
    else if (by === 'job') its.marks.push({ at: instantOf(run), kind: run.state, run });
    const zone = known.get(run.job)?.zone;
    if (zone) its.zones.add(zone);
  }
  if (by === 'job') groups.forEach((its, name) => about(its, known.get(name), { runs, due, from, to, now, twice }));
  // Whose name stands only under what was not run, or under what an operator did, ran nothing.
  const drawn = [...groups.values()].filter(({ lanes }) => by === 'job' || lanes.size > 0);
  return drawn.sort((a, b) => (a.name < b.name ? -1 : 1)).map(stacked);
}

/** More processes of one host than these are shown as one: it was started anew that often. */
const FEW = 4;

/** What its node is called: its host, or its process where several of one host are to be told apart. */
function nodes(runs) {
  const processes = new Map();
  for (const { host, process } of runs.filter(hasRun).map((run) => label(run.node))) {
    processes.set(host, (processes.get(host) ?? new Set()).add(process));
  }
  return (run) => {
    const { host, process } = label(run.node);
    const several = processes.get(host)?.size ?? 1;
    return several > 1 && several <= FEW ? process : host;
  };
}

/** What concerns one job besides its runs. */
function about(its, job, { runs, due, from, to, now, twice }) {
  const own = runs.filter((run) => run.job === its.name);
  for (const run of own.filter(hasRun)) its.marks.push({ at: instantOf(run), kind: run.asked ? 'asked' : 'tick', run });
  its.overlaps = twice.spans.filter((span) => span.job === its.name);
  its.pauses = pauses(own, job?.paused, from, to, now);
  if (job?.zone) its.zones.add(job.zone);
  its.paused = Boolean(job?.paused);
  const seen = new Set(own.map((run) => run.tick && Date.parse(run.tick)));
  const since = job?.since ? Date.parse(job.since) : -Infinity;
  for (const tick of due) {
    const at = Date.parse(tick.utc);
    if (at > to) continue;
    const was = seen.has(at);
    if (at > now) its.marks.push({ at, kind: 'due', tick });
    else if (!was && at < now - GRACE && at > since) its.marks.push({ at, kind: 'gap', tick });
    if (tick.odd) its.marks.push({ at, kind: 'odd', tick });
  }
  if (due.length) return;
  for (const next of job?.next ?? []) its.marks.push({ at: Date.parse(next), kind: 'due', tick: { utc: next } });
}

/** When it belongs to: its tick, or when it began or was written. */
export const instantOf = (run) => Date.parse(run.tick ?? run.started ?? run.written);

function lane({ lanes }, name) {
  if (!lanes.has(name)) lanes.set(name, []);
  return lanes.get(name);
}

function bar(run, now, twice) {
  const { from, to } = extent(run, now);
  return { run, from, to, open: run.state === 'running', overlaps: twice.runs.has(run) };
}

/** From when to when it ran, as far as is known: of one whose node has died, until it was last heard of. */
export function extent(run, now) {
  const from = Date.parse(run.started ?? run.tick ?? run.written);
  const to = run.ended ? Date.parse(run.ended) : run.state === 'running' ? now : Date.parse(run.written);
  return { from, to: Math.max(from, to) };
}

/** Runs of one job at the same time. */
export function overlaps(runs, now) {
  const found = { runs: new Set(), spans: [] };
  for (const [job, own] of Map.groupBy(runs.filter(hasRun), (run) => run.job)) {
    const sorted = own.map((run) => ({ run, ...extent(run, now) })).sort((a, b) => a.from - b.from);
    let last = null;
    for (const one of sorted) {
      const to = last && Math.min(last.to, one.to);
      if (last && to - one.from > SKEW) {
        found.runs.add(last.run).add(one.run);
        found.spans.push({ job, from: one.from, to });
      }
      if (!last || one.to > last.to) last = one;
    }
  }
  return found;
}

/** While which it was paused; what began before is known only where it still is, or its end is. */
function pauses(own, paused, from, to, now) {
  const acts = own.filter(({ state }) => state === 'paused' || state === 'resumed').sort((a, b) => instantOf(a) - instantOf(b));
  const spans = [];
  let began = null;
  for (const act of acts) {
    const at = instantOf(act);
    if (act.state === 'paused') began ??= at;
    else {
      spans.push({ from: began ?? from, to: at });
      began = null;
    }
  }
  if (paused) spans.push({ from: began ?? from, to: Math.min(to, paused.until ? Date.parse(paused.until) : to) });
  else if (began !== null) spans.push({ from: began, to: now });
  return spans;
}

/** Bars of a lane that overlap lie above one another. */
function stacked(group) {
  const lanes = [...group.lanes].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, bars]) => {
    const ends = [];
    for (const one of bars.sort((a, b) => a.from - b.from)) {
      const row = ends.findIndex((end) => end <= one.from);
      one.row = row < 0 ? ends.length : row;
      ends[one.row] = one.to;
    }
    return { name, bars, rows: Math.max(1, ends.length) };
  });
  return { ...group, lanes };
}
