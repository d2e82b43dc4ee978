// Store: whether it answers, where locks are, and what its examination says.

import { ask } from '../api.js';
import { chip, counting, facts, foreign, h, nothing, put, time } from '../dom.js';
import { count, span } from '../format.js';

export const title = 'Store';

/** The worst first. */
const SEVERITIES = ['problem', 'warning', 'fine'];

export function view() {
  const standing = h('div');
  const findings = h('div', { class: 'findings' });

  function show(store) {
    put(standing, h('div', { class: `health ${store.reachable ? 'fine' : 'problem'}` }, ...health(store)));
    put(findings, ...told(store));
  }

  return { element: h('section', {}, standing, findings), isSlow: true, load: () => ask('store'), show };
}

function health(store) {
  return [
    h('h2', {}, store.reachable ? chip('fine', 'answers') : chip('problem', 'does not answer'), ' ', foreign(store.shown, 'url')),
    facts(
      ['Kind', store.kind],
      ['Took', store.latency_ms === null ? null : span(store.latency_ms)],
      ['Route', store.route === null ? null : routed(store.route), 'long'],
      ['Error', store.error && foreign(store.error, 'reason'), 'long'],
    ),
  ];
}

/** Where a fallback's locks are now, and since when; whether somebody can't reach its primary. */
function routed({ target, state, since_ms: since, in_ms: within, complained_ms: complained, epoch }) {
  const states = { unarmed: 'not in force yet', pending: ['in force in ', counting(within ?? 0, -1)], in_force: ['for ', counting(since ?? 0, 1)] };
  return h('span', {}, chip(target === 'primary' ? 'fine' : 'warning', target), ' ', states[state] ?? state, `, epoch ${epoch}`, complained !== null && [', complained of ', counting(complained, 1), ' ago']);
}

function told({ findings, findings_at: at }) {
  if (!findings.length) return [nothing('Not examined yet', 'The store is examined once a minute at most, while somebody looks. The same examination in a terminal:', 'leasehold doctor')];
  const of = (severity) => findings.filter((one) => one.severity === severity);
  const sum = SEVERITIES.map((severity) => [severity, of(severity).length]).filter(([, times]) => times);
  return [
    h('h2', {}, 'What its examination says', at && h('span', { class: 'more' }, ' at ', time(at))),
    h('p', { class: 'legend' }, sum.map(([severity, times]) => h('span', {}, chip(severity, severity), ` ${count(times)}`))),
    h('ul', {}, SEVERITIES.flatMap(of).map(finding)),
  ];
}

function finding({ severity, subject, message, fix }) {
  return h('li', { class: severity }, chip(severity, severity), h('div', {}, h('h3', {}, foreign(subject, 'subject')), h('p', {}, foreign(message, 'reason')), fix && h('p', { class: 'fix' }, h('b', {}, 'Fix: '), foreign(fix, 'reason'))));
}
