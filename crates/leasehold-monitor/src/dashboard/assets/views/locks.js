// Locks now: who has what, for how long, and how many wait.

import { ask } from '../api.js';
import { choice, counting, foreign, h, nothing, put } from '../dom.js';
import { count } from '../format.js';
import { holder, state } from '../holder.js';
import { pager, table } from '../table.js';

export const title = 'Locks';

/** Rows at a time: however many locks there are, the page has so many. */
const SIZE = 100;

const STATES = [['all', 'All'], ['held', 'Held'], ['waited', 'Waited for'], ['kept', 'Kept']];

const COLUMNS = [
  { title: 'Lock', sort: 'name', kind: 'what', cell: (lock) => foreign(lock.name), below: (lock) => [lock.state !== 'held' && state(lock.state), lock.holder && who(lock)] },
  { title: 'State', kind: 'state wide', cell: (lock) => state(lock.state) },
  { title: 'Holder', kind: 'who wide', cell: who },
  { title: 'Held for', sort: '-held_for', down: true, kind: 'figure', cell: (lock) => since(lock.held_for_ms, 1) },
  { title: 'TTL left', sort: 'remaining', kind: 'figure wide', cell: (lock) => (lock.remaining_ms === null ? 'no end' : since(lock.remaining_ms, -1)) },
  { title: 'Waiting', sort: '-waiting', down: true, kind: 'figure', cell: (lock) => (lock.waiting ? h('strong', {}, count(lock.waiting)) : none()) },
  { title: 'Token', kind: 'figure wider', cell: (lock) => h('span', { class: 'token' }, lock.token) },
];

const none = () => h('span', { class: 'none' }, '–');

const since = (ms, direction) => (ms === null ? none() : counting(ms, direction));

function who(lock) {
  const others = lock.others.length;
  return h('span', {}, holder(lock.holder), others > 0 && h('span', { class: 'more' }, ` and ${count(others)} more`));
}

export function view(app) {
  const summary = h('p', { class: 'summary' });
  const empty = h('div');
  const search = h('input', { type: 'search', placeholder: 'Search names and holders', 'aria-label': 'Search names and holders', autocomplete: 'off', spellcheck: 'false' });
  const shown = table({
    caption: 'Locks now',
    columns: COLUMNS,
    key: (lock) => lock.name,
    open: (lock) => app.openLock(lock.name),
    sort: app.params.get('sort') ?? 'name',
    sorted: (sort) => app.set({ sort: sort === 'name' ? null : sort, offset: null }),
    row: (lock) => (lock.waiting ? 'waited' : ''),
  });
  const pages = pager(SIZE, (offset) => app.set({ offset: offset || null }));
  const pick = choice('Show', STATES, app.params.get('state') ?? 'all', (state) => app.set({ state: state === 'all' ? null : state, offset: null }));
  let typing = null;
  search.value = app.params.get('q') ?? '';
  search.addEventListener('input', () => {
    clearTimeout(typing);
    typing = setTimeout(() => app.set({ q: search.value, offset: null }), 150);
  });

  const query = () => Object.fromEntries(['q', 'state', 'sort', 'offset'].map((key) => [key, app.params.get(key)]));

  function show(now) {
    // The last page may have gone meanwhile.
    const offset = Number(app.params.get('offset') ?? 0);
    if (offset && offset >= now.total) return app.set({ offset: null });
    app.mark('waiting', now.waited);
    shown.show(now.locks);
    pages.show(offset, now.total);
    put(summary, h('b', {}, count(now.held)), ' held', h('b', {}, count(now.waited)), ' waited for');
    shown.element.hidden = now.total === 0;
    put(empty, now.total ? null : noneFound(query()));
  }

  return {
    element: h('section', {}, h('div', { class: 'tools' }, search, pick, summary), shown.element, empty, pages.element),
    load: () => ask('locks', { ...query(), limit: SIZE }),
    show,
    turn: pages.turn,
    focus: shown.focus,
    close: () => clearTimeout(typing),
  };
}

function noneFound({ q, state }) {
  if (q || state) return nothing('No such lock', 'No lock that is held, kept or waited for now is as you ask for.');
  return nothing('Nothing is locked', 'A lock shows here while somebody holds it or waits for it. To see one, run this against the same store:', 'leasehold run demo -- sleep 60');
}
