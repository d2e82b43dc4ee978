// A table whose rows stay where they are when their cells change, and that the arrow keys walk through.

import { h } from './dom.js';
import { count } from './format.js';

/**
 * `columns`: `{ title, cell(item), below(item), kind, sort }`. The first cell's button opens its item, and what there is no room for on a phone
 * stands below it; `sort` is what the column sorts by and `down`
 * whether it does so downwards. `open(item)` and `sorted(by)` are told.
 */
export function table({ caption, columns, key, open = null, sort = null, sorted = null, row = () => '' }) {
  const head = h('tr');
  const body = h('tbody');
  const rows = new Map();
  const items = new WeakMap();
  const element = h('div', { class: 'scroll' }, h('table', {}, h('caption', {}, caption), h('thead', {}, head), body));

  function showHead() {
    head.replaceChildren(...columns.map(heading));
  }

  function heading({ title, kind = '', sort: by = null, down = false, hint = null }) {
    if (!by || !sorted) return h('th', { scope: 'col', class: kind, title: hint }, title);
    const is = by === sort ? (down ? 'descending' : 'ascending') : null;
    const button = h('button', { type: 'button', class: 'sorts', 'data-by': by }, title);
    return h('th', { scope: 'col', class: kind, 'aria-sort': is, title: hint }, button);
  }

  function show(wanted) {
    const had = [...body.children].indexOf(body.querySelector(':focus-within'));
    const kept = new Set();
    wanted.forEach((item, nth) => {
      const id = key(item);
      const tr = rows.get(id) ?? h('tr');
      rows.set(id, tr);
      kept.add(id);
      items.set(tr, item);
      tr.className = row(item);
      columns.forEach((column, at) => cell(tr, column, at, item));
      if (body.children[nth] !== tr) body.insertBefore(tr, body.children[nth] ?? null);
    });
    for (const [id, tr] of rows) {
      if (kept.has(id)) continue;
      tr.remove();
      rows.delete(id);
    }
    oneStop(had);
  }

  function cell(tr, { cell: make, below = null, kind = '' }, at, item) {
    const content = make(item);
    const opens = at === 0 && open;
    const inside = opens ? h('button', { type: 'button', class: 'open', tabindex: '-1' }, content) : content;
    const made = h(at === 0 ? 'th' : 'td', { scope: at === 0 ? 'row' : null, class: kind }, inside, below && h('div', { class: 'below' }, below(item)));
    const is = tr.children[at];
    if (!is) return tr.append(made);
    // Whether it is the one that Tab stops at isn't told anew.
    if (opens) made.firstChild.tabIndex = is.firstChild.tabIndex;
    if (is.isEqualNode(made)) return;
    if (!opens) return is.replaceWith(made);
    is.firstChild.replaceChildren(...made.firstChild.childNodes);
    if (below) is.lastChild.replaceWith(made.lastChild);
  }

  const stops = () => [...body.querySelectorAll('.open')];

  /** One row is what Tab stops at. If the focused one has gone, the one in its place is focused. */
  function oneStop(had) {
    const all = stops();
    if (!all.length) return;
    if (had >= 0 && !body.contains(document.activeElement)) return walk(all, Math.min(had, all.length - 1));
    if (!all.some((stop) => stop.tabIndex === 0)) all[0].tabIndex = 0;
  }

  function walk(all, to) {
    for (const stop of all) stop.tabIndex = -1;
    all[to].tabIndex = 0;
    all[to].focus();
    all[to].scrollIntoView({ block: 'nearest' });
  }

  body.addEventListener('keydown', (event) => {
    const all = stops();
    const at = all.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1, PageDown: at + 10, PageUp: at - 10 }[event.key];
    if (at < 0 || to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    walk(all, Math.max(0, Math.min(to, all.length - 1)));
  });
  body.addEventListener('click', (event) => {
    const tr = event.target.closest('tr');
    if (open && tr && String(document.getSelection()) === '') open(items.get(tr));
  });
  head.addEventListener('click', (event) => {
    const by = event.target.closest('.sorts')?.dataset.by;
    if (!by) return;
    sort = by;
    showHead();
    head.querySelector(`[data-by="${by}"]`).focus();
    sorted(by);
  });
  if (open) element.classList.add('opens');
  showHead();
  return { element, show, focus: () => (stops().find((stop) => stop.tabIndex === 0) ?? head.querySelector('button'))?.focus() };
}

/** Which of how many are shown, and the way to the others. */
export function pager(size, go) {
  let offset = 0;
  let total = 0;
  const text = h('span', { role: 'status' });
  const back = h('button', { type: 'button', title: 'Previous page ([)', on: { click: () => turn(-1) } }, 'Previous');
  const on = h('button', { type: 'button', title: 'Next page (])', on: { click: () => turn(1) } }, 'Next');
  const element = h('div', { class: 'pager' }, text, back, on);

  function turn(by) {
    const to = offset + by * size;
    if (to >= 0 && to < total) go(to);
  }

  function show(from, of) {
    [offset, total] = [from, of];
    const told = total === 0 ? '' : `${count(offset + 1)}–${count(Math.min(offset + size, total))} of ${count(total)}`;
    if (text.textContent !== told) text.textContent = told;
    back.disabled = offset === 0;
    on.disabled = offset + size >= total;
    back.hidden = on.hidden = total <= size;
  }

  return { element, show, turn };
}

/** The same of items that are all here. */
export function paged(shown, size) {
  let all = [];
  let offset = 0;
  const pages = pager(size, (to) => {
    offset = to;
    draw();
  });

  function draw() {
    if (offset >= all.length) offset = 0;
    shown.show(all.slice(offset, offset + size));
    pages.show(offset, all.length);
  }

  return {
    elements: [shown.element, pages.element],
    turn: pages.turn,
    show(items) {
      all = items;
      draw();
    },
  };
}
