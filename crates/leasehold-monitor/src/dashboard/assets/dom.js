// Elements. Text from the store only ever becomes text: nothing here takes markup.

import { exact, instant, seconds, visible } from './format.js';

const SVG = 'http://www.w3.org/2000/svg';

/** An element. `on` are listeners; what is `null` or `false` is left out. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same, of a drawing. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, { on = {}, ...attributes }, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? '' : value);
  }
  for (const [event, listener] of Object.entries(on)) element.addEventListener(event, listener);
  element.append(...there(children));
  return element;
}

/** Those that are there, lists within lists laid out. */
const there = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

/** A name or another text that somebody else chose: apart from the direction of the text around it. */
export function foreign(text, kind = 'name', direction = null) {
  return h('bdi', { class: kind, title: visible(text), dir: direction }, visible(text));
}

/** An instant, shown as is usual here. */
export function time(at) {
  const date = new Date(at);
  return h('time', { datetime: date.toISOString(), title: exact(date) }, instant(date));
}

/** A span that goes on counting while what is shown is fresh: up, or down to nothing. */
export function counting(ms, direction) {
  return h('span', { class: 'counts', 'data-ms': ms, 'data-from': performance.now(), 'data-by': direction }, seconds(ms));
}

/** Lets them count. */
export function countOn(root) {
  const now = performance.now();
  for (const element of root.querySelectorAll('.counts')) {
    const { ms, from, by } = element.dataset;
    const text = seconds(Math.max(0, Number(ms) + (now - Number(from)) * Number(by)));
    if (element.textContent !== text) element.textContent = text;
  }
}

/** A word with a mark of its own, so that no state is told by colour alone. */
export function chip(kind, text, title = null) {
  return h('span', { class: `chip ${kind}`, title }, text);
}

/** Triples of a term, what is to be said of it, and whether that is long; what is `null` is left out. */
export function facts(...pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined);
  return h('dl', { class: 'facts' }, known.map(([term, value, kind = null]) => h('div', { class: kind }, h('dt', {}, term), h('dd', {}, value))));
}

/** Where there is nothing to show: why, and what would show something. */
export function nothing(title, text, ...commands) {
  const lines = commands.map((command) => h('pre', { tabindex: '0', 'aria-label': 'Command' }, h('code', {}, command)));
  return h('div', { class: 'nothing' }, h('h2', {}, title), h('p', {}, text), ...lines);
}

/** A choice of one among few. */
export function choice(title, options, chosen, choose) {
  const option = ([value, text]) => h('option', { value, selected: value === chosen }, text);
  const select = h('select', { on: { change: () => choose(select.value) } }, options.map(option));
  return h('label', { class: 'choice' }, h('span', {}, title), select);
}

/** Puts it in the place of what it was unless it is the same: focus and selection stay. */
export function put(parent, ...children) {
  const wanted = there(children).map((child) => (child instanceof Node ? child : document.createTextNode(child)));
  const is = [...parent.childNodes];
  if (is.length === wanted.length && is.every((node, nth) => wanted[nth].isEqualNode(node))) return;
  parent.replaceChildren(...wanted);
}
