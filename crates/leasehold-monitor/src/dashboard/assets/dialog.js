// Dialogs: what is known of one thing, at the side; and the keys.

import { h } from './dom.js';

/** A dialog that is gone once it is closed. */
export function dialog({ title, kind, closed = () => {} }) {
  const id = `title-${(dialog.made = (dialog.made ?? 0) + 1)}`;
  const close = h('button', { type: 'button', class: 'quiet close', 'aria-label': 'Close', title: 'Close (Esc)', on: { click: () => element.close() } }, '×');
  const body = h('div', { class: 'body' });
  const element = h('dialog', { class: kind, 'aria-labelledby': id }, h('header', {}, h('h2', { id, tabindex: '-1' }, title), close), body);
  element.addEventListener('close', () => {
    element.remove();
    closed();
  });
  // Beside it: the click hits the dialog itself, as what is inside fills it.
  element.addEventListener('click', (event) => event.target === element && element.close());
  document.body.append(element);
  element.showModal();
  element.querySelector('h2').focus();
  return { element, body, close: () => element.close() };
}

const KEYS = [
  ['1 … 6', 'Locks, Waiting, Contention, Runs, Schedule, Store'],
  ['/', 'Search'],
  ['t', 'Into the table'],
  ['↑ ↓ Home End', 'From row to row; Page keys: ten rows'],
  ['Enter', 'Open the row'],
  ['[ ]', 'Previous, next page; in Runs: earlier, later'],
  ['z', 'Times in UTC or in the zone of this browser'],
  ['r', 'Ask again now, and listen anew'],
  ['Esc', 'Close a dialog, leave the search'],
  ['?', 'This list'],
];

/** Whether single keys do something: who speaks to the machine may want them not to. */
export const keys = {
  get on() {
    return localStorage.getItem('keys') !== 'off';
  },
  set on(on) {
    localStorage.setItem('keys', on ? 'on' : 'off');
  },
};

export function listKeys() {
  const { body } = dialog({ title: 'Keys', kind: 'small' });
  const key = (text) => text.split(' ').map((one) => (one === '…' ? ' … ' : h('kbd', {}, one)));
  const rows = KEYS.map(([pressed, does]) => h('tr', {}, h('th', { scope: 'row' }, key(pressed)), h('td', {}, does)));
  const box = h('input', { type: 'checkbox', checked: keys.on, on: { change: () => (keys.on = box.checked) } });
  body.append(h('table', { class: 'keys' }, h('caption', {}, 'Keys and what they do'), h('tbody', {}, rows)), h('label', { class: 'check' }, box, 'Single keys do something'));
}
