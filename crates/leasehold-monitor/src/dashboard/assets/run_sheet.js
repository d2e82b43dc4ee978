// All that is known of one run, at the side.

import { dialog } from './dialog.js';
import { chip, facts, foreign, h, time } from './dom.js';
import { count, span } from './format.js';
import { extent, hasRun } from './timeline.js';

const STATES = {
  running: 'It runs; or its node has died, and nobody has said so yet',
  done: 'It did what it should',
  failed: 'It failed',
  lost: 'Its lock was lost, or its time limit was over, or something else has ended it',
  stopped: 'Its node was stopped',
  gone: 'Its node has died, or was cut off: nobody has said how it ended, and nobody holds its lock',
  skipped: 'It was not run: the job was still running, or paused',
  missed: 'It was not run: nobody was there',
  paused: 'An operator had the job pause',
  resumed: 'An operator ended the pause',
  reset: 'An operator had the store forget which ticks were claimed',
};

export const runState = (state) => chip(state, state, STATES[state]);

export function runSheet(run) {
  const { body } = dialog({ title: foreign(run.job), kind: 'sheet' });
  const { from, to } = extent(run, Date.now());
  body.append(
    h('p', {}, runState(run.state), ` ${STATES[run.state] ?? ''}.`),
    facts(
      ['Tick', run.tick && time(run.tick)],
      ['Asked for', run.asked && foreign(run.asked)],
      [hasRun(run) ? 'Node' : 'By', foreign(run.node, 'host', 'ltr'), 'long'],
      ['Started', run.started && time(run.started)],
      ['Ended', run.ended && time(run.ended)],
      ['Took', run.ended && run.started ? span(to - from) : null],
      ['Attempts', run.attempts ? count(run.attempts) : null],
      ['Fencing token', run.token && h('span', { class: 'token' }, run.token)],
      ['Why', run.reason && foreign(run.reason), 'long'],
      ['Written', time(run.written)],
    ),
  );
  if (run.output) body.append(h('h3', {}, 'What it wrote last'), h('pre', { tabindex: '0', 'aria-label': 'What it wrote last' }, run.output));
}
