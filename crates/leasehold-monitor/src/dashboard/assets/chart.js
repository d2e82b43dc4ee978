// Contention over time: how often locks were asked for and somebody had them, and how long they were waited for.

import { axis, drawn, grid } from './axis.js';
import { h, put, s } from './dom.js';
import { count, instant, share, span } from './format.js';

const TOP = 22;
const BARS = 120;
const GAP = 26;
const LINE = 80;
const LEFT = 68;

export function chart() {
  const readout = h('p', { class: 'readout' });
  const plot = h('div', { class: 'plot' });
  let data = null;
  drawn(plot, draw);

  function draw() {
    if (!data || !plot.clientWidth) return;
    const width = Math.max(120, plot.clientWidth - LEFT - 8);
    const time = axis(Date.parse(data.since), Date.parse(data.until), width);
    const height = TOP + BARS + GAP + LINE + 8;
    const cursor = s('line', { y1: TOP, y2: height - 8, class: 'cursor', visibility: 'hidden' });
    const inside = s('g', { transform: `translate(${LEFT} 0)` }, grid(time, TOP, height - TOP - 8), bars(time, data), line(time, data), cursor);
    const summary = `Attempts and contention from ${instant(Date.parse(data.since))} to ${instant(Date.parse(data.until))}. The numbers are in the table below.`;
    const drawing = s('svg', { width: plot.clientWidth, height, role: 'img', 'aria-label': summary }, inside);
    drawing.addEventListener('pointermove', (event) => point(event, time, cursor));
    drawing.addEventListener('pointerleave', () => {
      cursor.setAttribute('visibility', 'hidden');
      say(total(data.series), 'In all');
    });
    plot.replaceChildren(drawing);
    say(total(data.series), 'In all');
  }

  /** What was at that time. */
  function point(event, time, cursor) {
    const at = time.from + ((event.clientX - plot.getBoundingClientRect().left - LEFT) / time.width) * (time.to - time.from);
    const one = data.series.find(({ at: begins }) => at >= Date.parse(begins) && at < Date.parse(begins) + data.step_ms);
    if (!one) return;
    const middle = time.x(Date.parse(one.at) + data.step_ms / 2);
    for (const key of ['x1', 'x2']) cursor.setAttribute(key, middle);
    cursor.setAttribute('visibility', 'visible');
    say(one, `${instant(Date.parse(one.at))} + ${span(data.step_ms)}`);
  }

  function say(one, when) {
    const part = one.attempts ? share(one.contended / one.attempts) : '–';
    put(readout, h('b', {}, when), h('span', { class: 'key attempts' }, `${count(one.attempts)} attempts`), h('span', { class: 'key contended' }, `${count(one.contended)} met somebody (${part})`), one.waited_p90_ms !== null && h('span', { class: 'key waited' }, `wait p90 ${span(one.waited_p90_ms)}`));
  }

  return {
    element: h('figure', { class: 'chart' }, readout, plot),
    show(given) {
      data = given;
      draw();
    },
  };
}

function total(series) {
  const sum = (key) => series.reduce((all, one) => all + one[key], 0);
  return { attempts: sum('attempts'), contended: sum('contended'), waited_p90_ms: null };
}

/** Attempts, and within them those that met somebody. */
function bars(time, { series, step_ms: step }) {
  const most = Math.max(1, ...series.map(({ attempts }) => attempts));
  const bar = (one, of, kind) => {
    const left = Math.max(0, time.x(Date.parse(one.at)));
    const wide = Math.min(time.width, time.x(Date.parse(one.at) + step)) - left;
    const tall = (of / most) * BARS;
    return of > 0 && wide > 0 && s('rect', { x: left, y: TOP + BARS - tall, width: Math.max(1, wide - 1), height: tall, class: kind });
  };
  const both = series.flatMap((one) => [bar(one, one.attempts, 'attempts'), bar(one, one.contended, 'contended')]);
  return [...scale(TOP, BARS, count(most), 'attempts', time.width), ...both];
}

/** How long nine of ten waited at most. */
function line(time, { series, step_ms: step }) {
  const top = TOP + BARS + GAP;
  const most = Math.max(1, ...series.map(({ waited_p90_ms: waited }) => waited ?? 0));
  // The last step is not over yet.
  const middle = (begins) => (begins + Math.min(begins + step, time.to)) / 2;
  const at = (one) => [time.x(middle(Date.parse(one.at))), top + LINE - (one.waited_p90_ms / most) * LINE];
  // Where nobody waited there is nothing to join.
  const pieces = [[]];
  for (const one of series) one.waited_p90_ms === null ? pieces.push([]) : pieces.at(-1).push(at(one));
  const known = pieces.filter((piece) => piece.length);
  const lines = known.filter((piece) => piece.length > 1).map((piece) => s('polyline', { points: piece.map((one) => one.join(',')).join(' '), class: 'waited' }));
  const alone = known.filter((piece) => piece.length === 1).map(([[cx, cy]]) => s('circle', { cx, cy, r: 2.5, class: 'waited' }));
  return [...scale(top, LINE, span(most), 'wait p90', time.width), ...lines, ...alone];
}

function scale(top, height, most, title, width) {
  return [
    s('line', { x1: 0, x2: width, y1: top + height + 0.5, y2: top + height + 0.5, class: 'base' }),
    s('text', { x: -8, y: top + 9, class: 'scale' }, most),
    s('text', { x: -8, y: top + height, class: 'scale' }, '0'),
    s('text', { x: -8, y: top + height / 2 + 4, class: 'scale name' }, title),
  ];
}
