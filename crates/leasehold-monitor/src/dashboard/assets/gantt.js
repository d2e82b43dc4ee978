// Runs from left to right: a group for each job (or node), in it a lane for each node (or job).

import { axis, changes, drawn, grid, offsetIn, told } from './axis.js';
import { foreign, h, s } from './dom.js';
import { instant, span, visible } from './format.js';
import { extent } from './timeline.js';

const TOP = 26;
const HEAD = 24;
const ROW = 18;
const PAD = 6;
const DAY = 86_400_000;

/** What is shorter would be seen by nobody. */
const NARROW = 3;

export function gantt({ open, pick }) {
  const labels = h('div', { class: 'labels' });
  const plot = h('div', { class: 'plot' });
  let shown = null;
  drawn(plot, draw);

  function draw() {
    if (!shown || !plot.clientWidth) return;
    const { groups, from, to, now } = shown;
    const time = axis(from, to, plot.clientWidth);
    const places = placed(groups);
    const height = places.length ? places.at(-1).bottom : TOP;
    const pieces = places.flatMap((place) => group(place, time, now));
    const at = time.x(now);
    const present = at >= 0 && at <= time.width && s('line', { x1: at, x2: at, y1: TOP - 4, y2: height, class: 'now' }, s('title', {}, 'Now'));
    const drawing = s('svg', { width: time.width, height, role: 'img', 'aria-label': words(shown) }, bands(places, time), grid(time, TOP, height - TOP), pieces, present);
    drawing.addEventListener('click', (event) => {
      const run = event.target.closest('[data-run]')?.dataset.run;
      if (run !== undefined) open(shown.runs[Number(run)]);
    });
    plot.replaceChildren(drawing);
  }

  function name() {
    const focused = labels.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    labels.replaceChildren(...shown.groups.flatMap(({ name, lanes, paused }) => [
      h('div', { class: 'head' }, h('button', { type: 'button', class: 'open', 'data-name': name, on: { click: () => pick(name) } }, foreign(name)), paused && h('span', { class: 'chip paused' }, 'paused')),
      ...lanes.map((lane) => h('div', { class: `lane rows-${Math.min(lane.rows, MOST_ROWS)}` }, foreign(lane.name))),
    ]));
    if (focused !== null) [...labels.querySelectorAll('button')].find((button) => button.dataset.name === focused)?.focus();
  }

  return {
    element: h('div', { class: 'gantt' }, labels, plot),
    show(given) {
      shown = given;
      name();
      draw();
    },
  };
}

/** The stylesheet knows lanes of so many rows; what would be above that is drawn in the last. */
const MOST_ROWS = 6;

/** Where each group and lane lies. */
function placed(groups) {
  let y = TOP;
  return groups.map((group) => {
    const top = y;
    y += HEAD;
    const lanes = group.lanes.map((lane) => {
      const at = y;
      y += Math.min(lane.rows, MOST_ROWS) * ROW + PAD;
      return { ...lane, at };
    });
    return { ...group, top, lanes, bottom: y };
  });
}

function bands(places, { width }) {
  return places.map(({ top, bottom }, nth) => s('rect', { x: 0, y: top, width, height: bottom - top, class: nth % 2 ? 'band odd' : 'band' }));
}

function group({ zones, top, bottom, lanes, marks, overlaps, pauses }, time, now) {
  const within = (kind, { from, to }, title) => block(time, from, to, { y: top, height: bottom - top, class: kind }, title);
  return [
    ...clocks(zones, top, bottom, time),
    ...pauses.map((one) => within('paused', one, 'Paused')),
    ...overlaps.map((one) => within('overlap', one, `Two runs at once, for ${span(one.to - one.from)}`)),
    s('line', { x1: 0, x2: time.width, y1: bottom + 0.5, y2: bottom + 0.5, class: 'base' }),
    ...marks.map((one) => mark(one, top + HEAD / 2, time)),
    ...lanes.flatMap(({ at, bars }) => bars.map((one) => bar(one, at, time, now))),
  ];
}

/** A part of the time; none where it lies outside. */
function block({ x, from: first, to: last, width }, from, to, attributes, title) {
  if (to < first || from > last) return null;
  const left = Math.max(0, x(from));
  const wide = Math.max(NARROW, Math.min(width, x(to)) - left);
  return s('rect', { x: Math.min(left, width - NARROW), width: wide, ...attributes }, s('title', {}, title));
}

function bar({ run, nth, from, to, open, overlaps, row }, top, time, now) {
  const kind = `run ${run.state}${open ? ' open' : ''}${overlaps ? ' overlaps' : ''}`;
  const place = { y: top + Math.min(row, MOST_ROWS - 1) * ROW + 2, height: ROW - 4, rx: 2, class: kind, 'data-run': nth };
  return block(time, from, to, place, titled(run, now));
}

/** What a bar or a mark stands for. */
function titled(run, now) {
  const { from, to } = extent(run, now);
  const lines = [
    `${visible(run.job)}: ${run.state}`,
    run.tick && `tick ${instant(Date.parse(run.tick))}`,
    run.started && `from ${instant(from)}, ${run.ended || run.state === 'running' ? span(to - from) : 'end unknown'}`,
    `on ${visible(run.node)}`,
    run.attempts > 1 && `attempt ${run.attempts}`,
    run.asked && `asked for: ${visible(run.asked)}`,
    run.reason && visible(run.reason),
  ];
  return lines.filter(Boolean).join('\n');
}

const TITLES = {
  due: () => 'Will be due',
  gap: () => 'Was due; there is no record of it',
  odd: ({ odd }) => `An odd one: ${odd}`,
};

/** Ticks and what an operator did; each kind has a shape of its own. */
function mark({ at, kind, run, nth, tick }, y, time) {
  if (at < time.from || at > time.to) return null;
  const x = time.x(at);
  const title = s('title', {}, run ? titled(run, at) : `${TITLES[kind](tick)}\n${instant(at)}`);
  const shape = (path, extra = {}) => s('path', { d: path, transform: `translate(${x} ${y})`, class: `mark ${kind}`, 'data-run': run ? nth : null, ...extra }, title);
  return shape(SHAPES[kind] ?? SHAPES.act);
}

const SHAPES = {
  tick: 'M0 -4V4',
  due: 'M0 -4V4',
  asked: 'M-4 3L0 -4L4 3Z',
  missed: 'M-4 -4L4 4M4 -4L-4 4',
  skipped: 'M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0ZM-4 0H4',
  gap: 'M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z',
  odd: 'M0 -10L4 -6L0 -2L-4 -6Z',
  act: 'M-3 -3H3V3H-3Z',
};

/** The days on which clocks change, and the instant at which they do. */
function clocks(zones, top, bottom, time) {
  return [...zones].flatMap((zone) => changes(zone, time.from, time.to).flatMap(({ at, by }) => {
    const { from, to } = dayOf(zone, at);
    const way = `${by > 0 ? '+' : '−'}${span(Math.abs(by)).replace(' 00m', '')}`;
    const x = time.x(at);
    const title = told(zone, { at, by });
    return [
      block(time, from, to, { y: top, height: bottom - top, class: 'clocks' }, title),
      s('line', { x1: x, x2: x, y1: top, y2: bottom, class: 'clocks' }, s('title', {}, title)),
      s('text', { x: x + (x > time.width - 60 ? -4 : 4), y: top + 10, class: x > time.width - 60 ? 'clocks end' : 'clocks' }, `clocks ${way}`),
    ];
  }));
}

/** The local day in which it is. */
function dayOf(zone, at) {
  const [before, after] = [offsetIn(zone, at - 1000), offsetIn(zone, at)];
  const midnight = Math.floor((at + before) / DAY) * DAY;
  return { from: midnight - before, to: midnight + DAY - after };
}

/** All of it in a sentence, for who doesn't see it. */
function words({ groups, from, to, runs }) {
  return `Runs from ${instant(from)} to ${instant(to)}: ${runs.length} records of ${groups.length} groups. They are in the table below.`;
}
