// All that is known of one job, at the side: its next ticks in both clocks, and what an operator can do.

import { pause, resume, trigger } from './actions.js';
import { ask } from './api.js';
import { dialog } from './dialog.js';
import { chip, facts, foreign, h, put, time } from './dom.js';
import { holder } from './holder.js';
import { runState } from './run_sheet.js';

const TICKS = 10;

export function jobSheet(app, job, closed) {
  const { body, close } = dialog({ title: foreign(job.name), kind: 'sheet', closed });
  const [now, ticks] = [h('section'), h('section')];
  const runs = h('button', { type: 'button', on: { click: toRuns } }, 'Its runs');
  const start = h('button', { type: 'button', on: { click: () => trigger(app, job) } }, 'Trigger…');
  const rest = h('button', { type: 'button', on: { click: () => (job.paused ? resume : pause)(app, job) } });
  body.append(now, h('div', { class: 'buttons' }, runs, start, rest), ticks);
  put(ticks, h('p', { class: 'none' }, 'Asking…'));

  function toRuns() {
    close();
    location.hash = `runs?${new URLSearchParams({ job: job.name })}`;
  }

  function show(fresh) {
    const isNew = fresh.when !== job.when || fresh.next[0] !== job.next[0];
    job = fresh;
    rest.textContent = job.paused ? 'Resume…' : 'Pause…';
    put(now, ...standing(job));
    if (isNew) load();
  }

  async function load() {
    try {
      put(ticks, ...listed(await ask('next', { job: job.name, n: TICKS })));
    } catch (error) {
      put(ticks, h('p', { class: 'notice' }, error.message, error.fix && ` ${error.fix}`));
    }
  }

  show(job);
  load();
  return { name: job.name, show, close };
}

function standing(job) {
  const paused = job.paused && h('span', {}, 'by ', foreign(job.paused.by), job.paused.until ? [', until ', time(job.paused.until)] : ', until it is resumed');
  const running = job.running.map((run) => h('li', {}, runState(run.state), ' ', holder({ label: run.node }), ' ', run.started && time(run.started)));
  return [
    facts(
      ['Due', foreign(job.when, 'expression', 'ltr')],
      ['Zone', job.zone],
      ['Known since', job.since && time(job.since)],
      ['Paused', paused],
      ['Why', job.paused?.why ? foreign(job.paused.why) : null],
      ['Last run', job.last && h('span', {}, runState(job.last.state), ' ', time(job.last.ended ?? job.last.started ?? job.last.written), ' ', holder({ label: job.last.node })), 'long'],
      ['Last reason', job.last?.reason ? foreign(job.last.reason) : null, 'long'],
    ),
    running.length > 0 && h('h3', {}, 'Runs now'),
    running.length > 0 && h('ul', { class: 'holders' }, running),
  ];
}

function listed({ ticks, zone }) {
  if (!ticks.length) return [h('h3', {}, 'Next'), h('p', { class: 'none' }, 'It is not due any more.')];
  const heads = [zone ? `In ${zone}` : 'Local', 'UTC'].map((text) => h('th', { scope: 'col' }, text));
  const row = ({ utc, local, odd }) => h('tr', {}, h('th', { scope: 'row' }, weekday(local), odd && chip('odd', odd)), h('td', {}, short(utc)));
  return [h('h3', {}, 'Next'), h('table', { class: 'small ticks' }, h('caption', { class: 'unseen' }, 'When it is due next'), h('thead', {}, h('tr', {}, heads)), h('tbody', {}, ticks.map(row)))];
}

const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];

/** `Tue 2026-12-01 02:30+01:00`: the day that it is there. */
function weekday(local) {
  const date = new Date(`${local.slice(0, 10)}T00:00:00Z`);
  return `${DAYS[date.getUTCDay()]} ${short(local)}`;
}

/** Without the seconds where there are none. */
const short = (instant) => instant.replace('T', ' ').replace(/(:\d\d):00(?=[Z+-])/, '$1');
