// Runs: what ran where and when, what ran twice at a time, and what did not run.

import { ask } from '../api.js';
import { changes, told } from '../axis.js';
import { chip, choice, foreign, h, nothing, put, time } from '../dom.js';
import { count, span, visible } from '../format.js';
import { gantt } from '../gantt.js';
import { holder } from '../holder.js';
import { runSheet, runState } from '../run_sheet.js';
import { pager, paged, table } from '../table.js';
import { extent, hasRun, instantOf, isOfATick, overlaps, timeline } from '../timeline.js';

export const title = 'Runs';

const HOUR = 3_600_000;
const SPANS = [['0.25', '15 minutes'], ['1', '1 hour'], ['6', '6 hours'], ['24', '1 day'], ['72', '3 days'], ['168', '7 days'], ['720', '30 days']];

/** The server gives no more at a time. */
const MOST = 1000;

/** Jobs that are drawn at a time. */
const GROUPS = 40;

/** Ticks that one job's schedule is asked for: where there are more, the lane would be full of them. */
const TICKS = 200;

const none = () => h('span', { class: 'none' }, '–');

const COLUMNS = [
  { title: 'Job', kind: 'what', cell: ({ run }) => foreign(run.job), below: ({ run }) => [runState(run.state), holder({ label: run.node })] },
  { title: 'State', kind: 'state wide', cell: ({ run }) => runState(run.state) },
  { title: 'Tick', kind: 'figure', cell: ({ run }) => (run.tick ? time(run.tick) : run.asked ? 'asked for' : none()) },
  { title: 'Node', kind: 'who wide', cell: ({ run }) => holder({ label: run.node }) },
  { title: 'Started', kind: 'figure wide', cell: ({ run }) => (run.started ? time(run.started) : none()) },
  { title: 'Took', kind: 'figure', cell: took },
  { title: 'Attempts', kind: 'figure wider', cell: ({ run }) => (run.attempts > 1 ? h('strong', {}, count(run.attempts)) : run.attempts || none()) },
  { title: 'Why', kind: 'why wide', cell: ({ run }) => (run.reason ? foreign(run.reason, 'reason') : none()) },
];

function took({ run, now }) {
  if (!hasRun(run) || !(run.ended || run.state === 'running')) return none();
  const { from, to } = extent(run, now);
  return span(to - from);
}

const key = ({ run }) => [run.job, run.tick, run.started, run.asked, run.state].join('\n');

export function view(app) {
  const legend = h('p', { class: 'legend' });
  const notes = h('div');
  const empty = h('div');
  const chart = gantt({ open: runSheet, pick: (name) => app.set(by() === 'job' ? { job: name === app.params.get('job') ? null : name } : {}) });
  const shown = table({ caption: 'Records, the newest first', columns: COLUMNS, key, open: ({ run }) => runSheet(run) });
  const pages = paged(shown, 50);
  const groups = pager(GROUPS, (offset) => {
    first = offset;
    draw();
  });
  const jobs = choice('Job', [['', 'All']], '', (job) => app.set({ job }));
  const hours = () => Number(app.params.get('hours') ?? 6);
  const by = () => app.params.get('by') ?? 'job';
  const back = h('button', { type: 'button', title: 'Earlier ([)', on: { click: () => turn(-1) } }, 'Earlier');
  const on = h('button', { type: 'button', title: 'Later (])', on: { click: () => turn(1) } }, 'Later');
  const present = h('button', { type: 'button', on: { click: () => app.set({ until: null }) } }, 'Now');
  let known = null;
  let first = 0;

  /** Until when: a fixed instant, or the present and a little more, so that what is due next is seen. */
  const until = () => Number(app.params.get('until') ?? 0) || null;
  const range = () => {
    const to = until() ?? Date.now() + hours() * HOUR * 0.06;
    return { from: to - hours() * HOUR, to };
  };

  function turn(by) {
    const { to } = range();
    const next = to + by * hours() * HOUR * 0.5;
    app.set({ until: next >= Date.now() ? null : Math.round(next) });
  }

  async function load() {
    const { from, to } = range();
    const job = app.params.get('job');
    const iso = (at) => new Date(at).toISOString();
    const schedule = job ? ask('next', { job, from: iso(from), n: TICKS }).catch(forgive) : null;
    const [all, given, next] = await Promise.all([ask('jobs'), ask('runs', { from: iso(from), to: iso(to), job, limit: MOST }), schedule]);
    return { ...all, age_ms: given.age_ms, runs: given.runs, due: next?.ticks ?? [], from, to, job };
  }

  /** A job that is known from its runs alone has no schedule. */
  function forgive(error) {
    if (error.status) return null;
    throw error;
  }

  function show(given) {
    known = given;
    on.disabled = present.disabled = until() === null;
    pickJobs(given);
    draw();
  }

  function pickJobs({ jobs: all, job }) {
    const names = [...new Set([...all.map(({ name }) => name), ...(job ? [job] : [])])].sort();
    const select = jobs.querySelector('select');
    put(select, h('option', { value: '' }, 'All'), names.map((name) => h('option', { value: name }, visible(name))));
    select.value = job ?? '';
  }

  function draw() {
    const { at, jobs: all, due, from, to, job } = known;
    const now = Date.parse(at);
    const runs = known.runs;
    const wanted = job ? all.filter(({ name }) => name === job) : all;
    const found = timeline({ runs, jobs: wanted, due, from, to, now, by: by() });
    if (first >= found.length) first = 0;
    runs.forEach((run, nth) => numbers.set(run, nth));
    const here = found.slice(first, first + GROUPS).map(numbered);
    chart.show({ groups: here, runs, from, to, now });
    groups.show(first, found.length);
    groups.element.hidden = found.length <= GROUPS;
    chart.element.hidden = found.length === 0;
    put(legend, legendOf(runs, now, found));
    put(notes, notesOf(wanted, from, to), runs.length >= MOST && h('p', { class: 'hint' }, `Only the newest ${count(MOST)} records are shown. Choose a shorter time or one job to see all.`));
    pages.show([...runs].sort((a, b) => instantOf(b) - instantOf(a)).map((run) => ({ run, now: run.state === 'running' ? now : null })));
    shown.element.hidden = runs.length === 0;
    put(empty, runs.length ? null : found.length ? nothing('Nothing ran in this time', 'Go back with “Earlier”, or look at a longer time.') : noJobs());
  }

  /** Which record a bar is of, by number: a drawing carries no objects. */
  const numbers = new WeakMap();
  const numbered = (group) => {
    const its = (one) => ({ ...one, nth: one.run ? numbers.get(one.run) : null });
    return { ...group, marks: group.marks.map(its), lanes: group.lanes.map((lane) => ({ ...lane, bars: lane.bars.map(its) })) };
  };

  return {
    element: h(
      'section',
      {},
      h('div', { class: 'tools' }, choice('Over', SPANS, String(hours()), (value) => app.set({ hours: value === '6' ? null : value })), jobs, choice('In rows of', [['job', 'jobs'], ['node', 'nodes']], by(), (value) => app.set({ by: value === 'job' ? null : value })), h('div', { class: 'steps' }, back, present, on)),
      chart.element,
      groups.element,
      legend,
      notes,
      pages.elements,
      empty,
    ),
    load,
    show,
    turn,
    focus: shown.focus,
  };
}

/** What each colour and shape stands for, and how many there are. */
function legendOf(runs, now, found) {
  const times = Map.groupBy(runs.filter(isOfATick), ({ state }) => state);
  const states = ['done', 'running', 'failed', 'gone', 'lost', 'stopped', 'missed', 'skipped'].filter((state) => times.has(state));
  const twice = overlaps(runs, now).spans.length;
  const gaps = found.flatMap(({ marks }) => marks).filter(({ kind }) => kind === 'gap').length;
  return [
    ...states.map((state) => h('span', {}, chip(state, state), ` ${count(times.get(state).length)}`)),
    twice > 0 && h('span', {}, chip('overlap', 'two at once'), ` ${count(twice)}`),
    gaps > 0 && h('span', {}, chip('gap', 'no record'), ` ${count(gaps)}`),
  ].filter(Boolean);
}

/** When clocks change in this time, in words. */
function notesOf(jobs, from, to) {
  const zones = new Set(jobs.map((job) => job.zone).filter(Boolean));
  return [...zones].flatMap((name) => changes(name, from, to).map((one) => h('p', { class: 'hint' }, `${told(name, one)}.`)));
}

function noJobs() {
  return nothing('No jobs are known', 'Jobs show here once a scheduler has started with them. Write a leasehold.toml with this in it, then run leasehold schedule beside it:', '[jobs.heartbeat]\nevery = "10s"\ncommand = "echo alive"', 'leasehold schedule');
}
