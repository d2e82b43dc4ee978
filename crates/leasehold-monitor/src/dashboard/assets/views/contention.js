// Contention: over time, and which locks it is about.

import { ask } from '../api.js';
import { chart } from '../chart.js';
import { choice, foreign, h, nothing, put, s } from '../dom.js';
import { count, instant, share, span } from '../format.js';
import { paged, table } from '../table.js';

export const title = 'Contention';

const SPANS = [['15m', '15 minutes'], ['1h', '1 hour'], ['6h', '6 hours'], ['24h', '1 day'], ['168h', '7 days']];

const none = () => h('span', { class: 'none' }, '–');

const number = (one) => (one ? count(one) : none());

const quantile = (of, which) => (of ? span(of[which]) : none());

const prevented = ({ prevented: { marks, fences } }) => marks + fences;

const trouble = ({ lost, late_releases: late, failed }) => lost + late + failed;

/** What each column shows, and by what it sorts: the largest first but for names. */
const COLUMNS = [
  { title: 'Lock', sort: 'name', kind: 'what', cell: (one) => foreign(one.name), by: (one) => one.name },
  { title: 'Attempts', sort: 'attempts', down: true, kind: 'figure wide', cell: (one) => count(one.attempts), by: (one) => one.attempts },
  { title: 'Met somebody', sort: 'contended', down: true, kind: 'figure', cell: part, by: (one) => one.contended, hint: 'Attempts that found the lock held by somebody else' },
  { title: 'Wait p50', kind: 'figure wider', cell: (one) => quantile(one.waited, 'p50_ms'), hint: 'Half of them waited for so long at most' },
  { title: 'Wait p90', sort: 'waited', down: true, kind: 'figure', cell: (one) => quantile(one.waited, 'p90_ms'), by: (one) => one.waited?.p90_ms ?? -1, hint: 'Nine of ten waited for so long at most' },
  { title: 'Hold p50', kind: 'figure wider', cell: (one) => quantile(one.held, 'p50_ms'), hint: 'Half of them held it for so long at most' },
  { title: 'Hold p90', sort: 'held', down: true, kind: 'figure wide', cell: (one) => quantile(one.held, 'p90_ms'), by: (one) => one.held?.p90_ms ?? -1, hint: 'Nine of ten held it for so long at most' },
  { title: 'Longest hold', sort: 'longest', down: true, kind: 'figure wide', cell: (one) => quantile(one.held, 'max_ms'), by: (one) => one.held?.max_ms ?? -1 },
  { title: 'Not run twice', sort: 'prevented', down: true, kind: 'figure wider', cell: (one) => number(prevented(one)), by: prevented, hint: 'Runs that a mark or a fence kept from happening a second time' },
  { title: 'Trouble', sort: 'trouble', down: true, kind: 'figure wide', cell: troubles, by: trouble, hint: 'Lost, released too late, or failed' },
];

function part(one) {
  // The whole is 48 wide; a stylesheet can't know the number.
  const bar = s('svg', { class: 'part', width: 48, height: 8, 'aria-hidden': 'true' }, s('rect', { width: 48, height: 8, rx: 2, class: 'whole' }), s('rect', { width: Math.max(one.contended ? 1.5 : 0, one.contended_share * 48), height: 8, rx: 2, class: 'contended' }));
  return h('span', {}, h('span', { class: 'times' }, count(one.contended)), bar, h('span', { class: 'share' }, share(one.contended_share)));
}

function troubles(one) {
  const told = [[one.lost, 'lost'], [one.late_releases, 'late'], [one.failed, 'failed']].filter(([times]) => times);
  return told.length ? h('span', { class: 'bad' }, told.map(([times, what]) => `${count(times)} ${what}`).join(', ')) : none();
}

export function view(app) {
  const drawing = chart();
  const empty = h('div');
  const notes = h('div');
  const search = h('input', { type: 'search', placeholder: 'Search names', 'aria-label': 'Search names', autocomplete: 'off', spellcheck: 'false', on: { input: draw } });
  let by = COLUMNS.find(({ sort }) => sort === app.params.get('by')) ?? COLUMNS[2];
  const shown = table({
    caption: 'Contention of each lock',
    columns: COLUMNS,
    key: ({ name }) => name,
    open: ({ name }) => app.openLock(name),
    sort: by.sort,
    sorted(sort) {
      by = COLUMNS.find((column) => column.sort === sort);
      app.set({ by: sort });
      draw();
    },
  });
  const pages = paged(shown, 50);
  const numbers = h('div');
  const details = h('details', {}, h('summary', {}, 'The chart as a table'), numbers);
  details.addEventListener('toggle', draw);
  const pick = choice('Over the last', SPANS, app.params.get('since') ?? '1h', (since) => app.set({ since }));
  const body = h('div', {}, drawing.element, details, pages.elements, notes);
  let now = null;

  function draw() {
    if (!now) return;
    const wanted = search.value.trim().toLowerCase();
    const sign = by.down ? -1 : 1;
    const order = (a, b) => (by.by(a) < by.by(b) ? -sign : by.by(a) > by.by(b) ? sign : a.name < b.name ? -1 : 1);
    pages.show(now.locks.filter(({ name }) => name.toLowerCase().includes(wanted)).sort(order));
    if (details.open) put(numbers, series(now));
  }

  function show(given) {
    now = given;
    const is = now.locks.length > 0;
    body.hidden = !is;
    put(empty, is ? null : nothing('Nothing was counted', 'Each client counts what it does and writes it to the store every ten seconds: attempts, waits, holds. There is nothing of this time. To see something, run this in two terminals:', 'leasehold run demo --wait -- sleep 5'));
    if (is) drawing.show(now);
    put(notes, ...rest(now));
    draw();
  }

  return {
    element: h('section', {}, h('div', { class: 'tools' }, pick, search), body, empty),
    isSlow: true,
    load: () => ask('contention', { since: app.params.get('since') ?? '1h' }),
    show,
    turn: pages.turn,
    focus: shown.focus,
  };
}

/** What is not in the table. */
function rest({ others, is_cut: cut }) {
  return [
    others && h('p', { class: 'hint' }, `Of ${count(others.names)} more names there was no room for a row: ${count(others.attempts)} attempts, ${count(others.contended)} met somebody, ${count(others.lost)} lost.`),
    cut && h('p', { class: 'hint' }, 'So many clients have written that what some have counted may be missing.'),
  ];
}

function series({ series: all, step_ms: step }) {
  const heads = ['From', 'Attempts', 'Met somebody', 'Wait p90'].map((text) => h('th', { scope: 'col' }, text));
  const row = (one) => h('tr', {}, h('th', { scope: 'row' }, instant(Date.parse(one.at))), h('td', {}, count(one.attempts)), h('td', {}, count(one.contended)), h('td', {}, one.waited_p90_ms === null ? none() : span(one.waited_p90_ms)));
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'The chart as a table' }, h('table', { class: 'small' }, h('caption', {}, `Each ${span(step)}`), h('thead', {}, h('tr', {}, heads)), h('tbody', {}, all.map(row))));
}
