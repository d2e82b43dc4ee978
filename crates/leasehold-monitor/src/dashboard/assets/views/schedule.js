// Schedule: which jobs there are, when each is due next, which are paused.

import { ask } from '../api.js';
import { chip, foreign, h, nothing, put, time } from '../dom.js';
import { count, span } from '../format.js';
import { jobSheet } from '../job_sheet.js';
import { runState } from '../run_sheet.js';
import { paged, table } from '../table.js';

export const title = 'Schedule';

const none = () => h('span', { class: 'none' }, '–');

const next = ({ next: ticks }) => (ticks.length ? Date.parse(ticks[0]) : Infinity);

const COLUMNS = [
  { title: 'Job', sort: 'name', kind: 'what', cell: ({ job }) => foreign(job.name), below: due },
  { title: 'Now', kind: 'state', cell: ({ job }) => now(job) },
  { title: 'Due', kind: 'when wide', cell: due },
  { title: 'Next', sort: 'next', kind: 'figure', cell: upcoming },
  { title: 'Then', kind: 'figure wide', cell: ({ job }) => (job.next[1] ? time(job.next[1]) : none()) },
  { title: 'Last', kind: 'state wide', cell: ({ job }) => (job.last ? h('span', {}, runState(job.last.state), ' ', time(job.last.ended ?? job.last.started ?? job.last.written)) : none()) },
];

function due({ job }) {
  return h('span', {}, foreign(job.when, 'expression', 'ltr'), job.zone && h('span', { class: 'zone' }, ` ${job.zone}`));
}

function upcoming({ job, at }) {
  if (!job.next.length) return none();
  const tick = Date.parse(job.next[0]);
  return h('span', {}, time(job.next[0]), ' ', h('span', { class: 'more' }, tick <= at ? 'due' : `in ${span(tick - at)}`));
}

function now(job) {
  if (job.paused) return chip('paused', 'paused', job.paused.why);
  if (job.running.length) return chip('running', job.running.length > 1 ? `running × ${count(job.running.length)}` : 'running');
  return chip('idle', 'idle');
}

export function view(app) {
  const summary = h('p', { class: 'summary' });
  const empty = h('div');
  const search = h('input', { type: 'search', placeholder: 'Search jobs', 'aria-label': 'Search jobs', autocomplete: 'off', spellcheck: 'false', on: { input: draw } });
  let sort = 'name';
  let known = null;
  let sheet = null;
  const shown = table({
    caption: 'Jobs and when they are due',
    columns: COLUMNS,
    key: ({ job }) => job.name,
    open: ({ job }) => (sheet = jobSheet(app, job, () => (sheet = null))),
    sort,
    sorted(by) {
      sort = by;
      draw();
    },
  });
  const pages = paged(shown, 100);

  function show(given) {
    known = given;
    const fresh = sheet && given.jobs.find(({ name }) => name === sheet.name);
    if (fresh) sheet.show(fresh);
    draw();
  }

  function draw() {
    if (!known) return;
    const wanted = search.value.trim().toLowerCase();
    const found = known.jobs.filter(({ name }) => name.toLowerCase().includes(wanted));
    found.sort((a, b) => (sort === 'next' && next(a) !== next(b) ? next(a) - next(b) : a.name < b.name ? -1 : 1));
    pages.show(found.map((job) => ({ job, at: Date.parse(known.at) })));
    const paused = known.jobs.filter((job) => job.paused).length;
    put(summary, h('b', {}, count(known.jobs.length)), known.jobs.length === 1 ? ' job' : ' jobs', paused > 0 && [h('b', {}, count(paused)), ' paused']);
    shown.element.hidden = found.length === 0;
    put(empty, found.length ? null : wanted ? nothing('No such job', 'No job that has been started is called like that.') : noJobs());
  }

  return {
    element: h('section', {}, h('div', { class: 'tools' }, search, summary), pages.elements, empty),
    load: () => ask('jobs'),
    show,
    turn: pages.turn,
    focus: shown.focus,
    close: () => sheet?.close(),
  };
}

function noJobs() {
  return nothing('No jobs are known', 'Jobs show here once a scheduler has started with them. Write a leasehold.toml with this in it, then run leasehold schedule beside it:', '[jobs.heartbeat]\nevery = "10s"\ncommand = "echo alive"', 'leasehold schedule');
}
