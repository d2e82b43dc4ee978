// The page: which view is shown, what keeps it fresh, which keys do what.

import { ask } from './api.js';
import { keys, listKeys } from './dialog.js';
import { countOn, h } from './dom.js';
import { instant, seconds, visible, zone } from './format.js';
import { Live } from './live.js';
import { lockSheet } from './lock_sheet.js';
import * as contention from './views/contention.js';
import * as locks from './views/locks.js';
import * as runs from './views/runs.js';
import * as schedule from './views/schedule.js';
import * as store from './views/store.js';
import * as waiting from './views/waiting.js';

const VIEWS = { locks, waiting, contention, runs, schedule, store };

const $ = (id) => document.getElementById(id);
const main = $('main');

const app = {
  /** What the address says besides the view: what is searched for, sorted by, opened. */
  params: new URLSearchParams(),
  refresh,
  tell,
  openLock,
  /** Changes what the address says, and asks anew. */
  set(changes) {
    for (const [key, value] of Object.entries(changes)) {
      value === null || value === '' ? app.params.delete(key) : app.params.set(key, value);
    }
    showAddress();
    refresh();
  },
};

let current = null;
let view = null;
let sheet = null;
let asking = null;
let again = false;
let seen = null;
/** Why the store does not answer, by what is shown, and by its own health. */
let silence = null;
let illness = null;
let examining = null;

const links = Object.entries(VIEWS).map(([name, { title }]) => {
  const number = h('span', { class: 'number', hidden: true });
  return h('a', { href: `#${name}`, id: `to-${name}` }, title, number);
});
$('nav').append(...links);

const notice = h('div', { class: 'notices', role: 'alert' });
const told = h('div', { class: 'told', role: 'status' });
const place = h('div', { class: 'view' });
main.replaceChildren(notice, place);
document.body.append(told);

// What is counted, or examined, is no newer for each lock that comes and goes.
const live = new Live({ refresh, heard: () => view.isSlow || refresh(), changed: showLive });

/** Where we are, in the address; unless it says already where we are about to go. */
function showAddress() {
  if (named() !== current) return;
  const text = app.params.toString();
  history.replaceState(null, '', `#${current}${text && `?${text}`}`);
}

/** The view that the address names. */
function named() {
  const [name] = location.hash.slice(1).split('?');
  return Object.hasOwn(VIEWS, name) ? name : 'locks';
}

function route() {
  app.params = new URLSearchParams(location.hash.split(/\?(.*)/s)[1]);
  enter(named());
  app.params.has('lock') ? openLock(app.params.get('lock')) : sheet?.close();
  refresh();
}

function enter(name) {
  current = name;
  view?.close?.();
  for (const link of links) {
    link.id === `to-${name}` ? link.setAttribute('aria-current', 'page') : link.removeAttribute('aria-current');
  }
  document.title = `${VIEWS[name].title} · Leasehold`;
  document.querySelector('[aria-current]').scrollIntoView({ block: 'nearest', inline: 'nearest' });
  view = VIEWS[name].view(app);
  place.replaceChildren(h('h1', { class: 'unseen' }, VIEWS[name].title), view.element);
}

/** Asks for what is shown. What comes up meanwhile is asked for when the answer is there: one question at a time. */
async function refresh() {
  if (asking) {
    again = true;
    return;
  }
  do {
    again = false;
    asking = once();
    await asking;
    asking = null;
  } while (again);
}

async function once() {
  const [shown, opened] = [view, sheet];
  try {
    examine();
    const [data] = await Promise.all([shown.load(), opened?.load()]);
    silence = data.away?.message ?? null;
    // Another view has been entered meanwhile.
    if (shown === view) {
      fresh(data);
      shown.show(data);
    }
    refusal(null);
    live.went(true);
  } catch (error) {
    if (!error.code) console.error(error);
    if (error.status) refusal(error);
    live.went(Boolean(error.status));
  }
}

/** Asks how the store is. An examination may take longer than all that is shown, so it holds nothing up but itself. */
async function examine() {
  if (examining) return;
  examining = ask('store').catch(() => null);
  const health = await examining;
  examining = null;
  if (!health) return;
  illness = health.reachable ? null : (health.error ?? 'It gives no reason.');
  mark('store', health.reachable ? health.findings.filter(({ severity }) => severity === 'problem').length : 1);
  showLive();
}

const storeError = () => silence ?? illness;

/** An answer that was not what is shown: the words of the server. */
let refused = null;

function refusal(error) {
  refused = error;
}

/** How old is what is shown? The server says so: while the store is away it tells what it knew last. */
function fresh({ age_ms: age = 0 }) {
  seen = { when: performance.now() - age, clock: Date.now() - age };
}

const WORDS = { joining: 'Connecting', live: 'Live', polling: 'Not live', away: 'No connection' };

function showLive() {
  const state = storeError() && live.state !== 'away' ? 'stale' : live.state;
  const word = state === 'stale' ? 'Store away' : WORDS[state];
  $('live').dataset.state = state;
  if ($('live-word').textContent !== word) $('live-word').textContent = word;
  const age = seen && performance.now() - seen.when;
  $('live-age').textContent = seen === null ? '' : age < 1500 ? 'now' : `${seconds(age)} ago`;
  $('live').title = state === 'polling' ? 'Events do not come through: asks every 5 s.' : '';
  const text = message(state);
  if (notice.textContent !== text) notice.replaceChildren(...(text ? [h('p', { class: 'notice' }, text)] : []));
}

function message(state) {
  const old = seen === null ? 'Nothing is known yet.' : `What is shown is as it was at ${instant(seen.clock)}.`;
  if (state === 'away') return `The server does not answer. ${old} Asking again every 5 s.`;
  if (state === 'stale') return `The store does not answer: ${ended(visible(storeError()))} ${old}`;
  if (refused) return ended(refused.message) + (refused.fix ? ` ${ended(refused.fix)}` : '');
  return '';
}

/** As a sentence: what a server says ends without a stop. */
const ended = (text) => (/[.?!]$/.test(text) ? text : `${text}.`);

function mark(name, number) {
  const element = $(`to-${name}`).querySelector('.number');
  element.hidden = !number;
  element.textContent = number || '';
}
app.mark = mark;

setInterval(() => {
  showLive();
  if (live.state !== 'away' && !storeError()) countOn(document.body);
}, 1000);

function tell(text) {
  const line = h('p', {}, text);
  told.replaceChildren(line);
  setTimeout(() => line.remove(), 6000);
}

function openLock(name) {
  if (sheet?.name === name) return;
  sheet?.close();
  if (app.params.get('lock') !== name) {
    app.params.set('lock', name);
    showAddress();
  }
  const opened = lockSheet(app, name, () => {
    if (sheet !== opened) return;
    sheet = null;
    app.params.delete('lock');
    showAddress();
  });
  sheet = opened;
  refresh();
}

function showZone() {
  $('zone').textContent = zone.name;
  $('zone').setAttribute('aria-label', `Times in ${zone.name}: change`);
}

function turnZone() {
  zone.isUtc = !zone.isUtc;
  localStorage.setItem('zone', zone.isUtc ? 'utc' : 'local');
  showZone();
  refresh();
}

const DOES = {
  '/': () => place.querySelector('input[type=search]')?.focus(),
  '?': listKeys,
  '[': () => view.turn?.(-1),
  ']': () => view.turn?.(1),
  r: () => live.start(),
  t: () => view.focus?.(),
  z: turnZone,
};

document.addEventListener('keydown', (event) => {
  const field = event.target.closest('input, select, textarea');
  if (event.key === 'Escape' && field && place.contains(field)) return field.blur();
  if (field || event.ctrlKey || event.metaKey || event.altKey || !keys.on || document.querySelector('dialog[open]')) return;
  const nth = Object.keys(VIEWS)[Number(event.key) - 1];
  if (nth) location.hash = nth;
  else if (Object.hasOwn(DOES, event.key)) DOES[event.key]();
  else return;
  event.preventDefault();
});

$('keys').addEventListener('click', listKeys);
$('zone').addEventListener('click', turnZone);
$('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener('hashchange', route);

zone.isUtc = localStorage.getItem('zone') === 'utc';
showZone();
route();
live.start();
