// Time from left to right: where an instant lies, and which ones are worth a line.

import { s } from './dom.js';
import { day, minute, zone } from './format.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY];

/** Pixels that a label needs. */
const ROOM = 76;

/** `x(at)` for a width; `lines` are the instants that get one, with a text. */
export function axis(from, to, width) {
  const x = (at) => ((at - from) / (to - from)) * width;
  const step = STEPS.find((one) => x(from + one) >= ROOM) ?? STEPS.at(-1);
  const lines = [];
  // By the clock of the zone that is shown: midnight is where its day begins.
  for (let at = first(from, step); at < to; at = next(at, step)) lines.push({ at, text: text(at, step) });
  return { x, lines, from, to, width };
}

/** The lines and their texts, for a drawing of that height below `top`. */
export function grid({ x, lines, width }, top, height) {
  return lines.map(({ at, text }) => {
    const left = Math.round(x(at)) + 0.5;
    const label = left > 18 && left < width - 18 && s('text', { x: left, y: top - 6, class: 'tick' }, text);
    return s('g', {}, s('line', { x1: left, x2: left, y1: top, y2: top + height, class: 'grid' }), label);
  });
}

function first(from, step) {
  const shift = offset(from);
  return Math.ceil((from + shift) / step) * step - shift;
}

/** The next one, also across a change of the clocks. */
function next(at, step) {
  const to = at + step;
  const moved = offset(at) - offset(to);
  return step > HOUR ? to + moved : to;
}

function text(at, step) {
  const is = minute(at);
  return step >= DAY || is === '00:00' ? day(at) : is;
}

/** By how much the clocks of the zone that is shown are ahead of UTC then. */
const offset = (at) => offsetIn(zone.name, at);

const formats = new Map();

/** By how much the clocks of a zone are ahead of UTC at that instant; none if the browser doesn't know the zone. */
export function offsetIn(name, at) {
  if (!formats.has(name)) formats.set(name, made(name));
  const format = formats.get(name);
  if (!format) return 0;
  const parts = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
  const local = Date.UTC(parts.year, parts.month - 1, parts.day, parts.hour, parts.minute, parts.second);
  return local - Math.floor(at / 1000) * 1000;
}

function made(name) {
  const numeric = Object.fromEntries(['year', 'month', 'day', 'hour', 'minute', 'second'].map((part) => [part, 'numeric']));
  try {
    return new Intl.DateTimeFormat('en', { ...numeric, hourCycle: 'h23', timeZone: name });
  } catch {
    return null;
  }
}

/** A change of a zone's clocks, in words: by those clocks. */
export function told(name, { at, by }) {
  const local = (offset) => new Date(at + offset).toISOString();
  const [before, after] = [local(offsetIn(name, at - 1000)), local(offsetIn(name, at))];
  return `On ${before.slice(0, 10)} clocks in ${name} go ${by > 0 ? 'forward' : 'back'} from ${before.slice(11, 16)} to ${after.slice(11, 16)}`;
}

/** When the clocks of a zone change between two instants: `{ at, by }`. */
export function changes(name, from, to) {
  const found = [];
  for (let at = from; at < to; at += 12 * HOUR) {
    const end = Math.min(at + 12 * HOUR, to);
    const by = offsetIn(name, end) - offsetIn(name, at);
    if (by !== 0) found.push({ at: change(name, at, end), by });
  }
  return found;
}

/** The instant of the one change between these. */
function change(name, before, after) {
  const was = offsetIn(name, before);
  while (after - before > 1000) {
    const middle = Math.floor((before + after) / 2000) * 1000;
    if (offsetIn(name, middle) === was) before = middle;
    else after = middle;
  }
  return after;
}

/** Draws anew when the place gets another width. */
export function drawn(element, draw) {
  let width = 0;
  new ResizeObserver(([{ contentRect }]) => {
    if (Math.abs(contentRect.width - width) < 1) return;
    width = contentRect.width;
    draw();
  }).observe(element);
}
