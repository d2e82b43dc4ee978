// Who waits behind whom: each lock that is waited for, its holder, and the line behind it.

import { ask } from '../api.js';
import { counting, foreign, h, nothing, put } from '../dom.js';
import { count, label } from '../format.js';
import { holder } from '../holder.js';

export const title = 'Waiting';

/** So many of a line are written out. */
const MOST = 8;

export function view(app) {
  const summary = h('p', { class: 'summary' });
  const lines = h('div', { class: 'lines' });
  const search = h('input', { type: 'search', placeholder: 'Search names and who waits', 'aria-label': 'Search names and who waits', autocomplete: 'off', spellcheck: 'false' });
  const cards = new Map();
  let waits = [];
  search.addEventListener('input', draw);

  function show(now) {
    waits = now.waits;
    app.mark('waiting', new Set(waits.map(({ name }) => name)).size);
    draw();
  }

  function draw() {
    const wanted = search.value.trim().toLowerCase();
    const has = ({ name, waiter, holder: by }) => [name, waiter.label, by?.label ?? ''].some((text) => text.toLowerCase().includes(wanted));
    const shown = Map.groupBy(waits.filter(has), ({ name }) => name);
    const also = waitsOf(waits);
    put(summary, h('b', {}, count(waits.length)), waits.length === 1000 ? ' wait (the first 1000)' : ' wait', h('b', {}, count(shown.size)), shown.size === 1 ? ' lock' : ' locks');
    const sorted = [...shown].sort(([a, ones], [b, others]) => others.length - ones.length || (a < b ? -1 : 1));
    for (const name of cards.keys()) {
      if (shown.has(name)) continue;
      cards.get(name).remove();
      cards.delete(name);
    }
    sorted.forEach(([name, line], nth) => place(name, line, nth, also));
    put(empty, sorted.length ? null : wanted ? nothing('Nobody waits like that', 'Of those who wait now.') : nobody());
  }

  function place(name, line, nth, also) {
    if (!cards.has(name)) {
      const open = h('button', { type: 'button', class: 'open', on: { click: () => app.openLock(name) } }, foreign(name));
      cards.set(name, h('article', { class: 'card' }, h('h2', {}, open), h('div')));
    }
    const card = cards.get(name);
    put(card.lastChild, ...lineOf(name, line, also));
    if (lines.children[nth] !== card) lines.insertBefore(card, lines.children[nth] ?? null);
  }

  const empty = h('div');
  return {
    element: h('section', {}, h('div', { class: 'tools' }, search, summary), lines, empty),
    load: () => ask('waits'),
    show,
    focus: () => lines.querySelector('.open')?.focus(),
  };
}

function lineOf(name, line, also) {
  const by = line[0].holder;
  const others = by ? [...(also.get(label(by.label).process) ?? [])].filter((other) => other !== name) : [];
  const one = ({ waiter }) => h('li', {}, holder(waiter), waiter.waited_ms === null ? null : counting(waiter.waited_ms, 1));
  return [
    h('p', { class: 'by' }, h('span', { class: 'term' }, by ? 'Held by' : 'Held by nobody now'), ' ', by && holder(by)),
    others.length > 0 && h('p', { class: 'chain' }, 'That process waits itself, for ', others.slice(0, 3).flatMap((other, nth) => [nth ? ', ' : '', foreign(other)]), others.length > 3 && ` and ${count(others.length - 3)} more`),
    h('ol', { class: 'line' }, line.slice(0, MOST).map(one)),
    line.length > MOST && h('p', { class: 'more' }, `and ${count(line.length - MOST)} more behind them`),
  ].filter(Boolean);
}

/** What each process waits for. */
function waitsOf(waits) {
  const of = new Map();
  for (const { name, waiter } of waits) {
    const { process } = label(waiter.label);
    of.set(process, (of.get(process) ?? new Set()).add(name));
  }
  return of;
}

function nobody() {
  return nothing('Nobody waits', 'Who waits for a lock that somebody holds stands here, in line. To see it, run this in two terminals:', 'leasehold run demo --wait -- sleep 60');
}
