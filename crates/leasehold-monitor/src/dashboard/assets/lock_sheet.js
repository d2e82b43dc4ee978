// All that is known of one lock, at the side.

import { ask } from './api.js';
import { dialog } from './dialog.js';
import { counting, facts, foreign, h, put, time } from './dom.js';
import { revoke } from './actions.js';
import { count, share, span } from './format.js';
import { holder, state } from './holder.js';

/** Opens it; `closed` is told when it is closed again. */
export function lockSheet(app, name, closed) {
  const { element, body, close } = dialog({ title: foreign(name), kind: 'sheet', closed });
  const [now, ends, queue, past] = [h('section'), h('section'), h('section'), h('section')];
  const end = h('button', { type: 'button', class: 'does danger', hidden: true }, 'Revoke…');
  body.append(now, h('div', { class: 'buttons' }, end), ends, queue, past);
  put(now, h('p', { class: 'none' }, 'Asking…'));
  let lock = null;
  end.addEventListener('click', () => revoke(app, lock));

  async function load() {
    let known;
    try {
      known = await ask('lock', { name });
    } catch (error) {
      if (!error.status) throw error;
      put(now, h('p', { class: 'notice' }, error.message, error.fix && ` ${error.fix}`));
      return;
    }
    if (!element.isConnected) return;
    lock = known.lock;
    end.hidden = !lock || lock.state === 'free';
    put(now, lock ? standing(lock) : h('p', {}, 'Nobody holds it, and nobody waits for it.'));
    put(ends, ended(known.revocations ?? []));
    put(queue, line(known.queue));
    put(past, known.contention ? history(known.contention) : null);
  }

  return { name, load, close };
}

function standing(lock) {
  const several = lock.permits > 1 && h('h3', {}, `Holders (${1 + lock.others.length} of ${count(lock.permits)})`);
  const others = lock.others.map((other) => h('li', {}, holder(other)));
  return [
    facts(
      ['State', state(lock.state)],
      ['Holder', holder(lock.holder), 'long'],
      ['Held for', lock.held_for_ms === null ? null : counting(lock.held_for_ms, 1)],
      ['Left of its TTL', lock.remaining_ms === null ? 'no end' : counting(lock.remaining_ms, -1)],
      ['Fencing token', h('span', { class: 'token' }, lock.token)],
      ['Holder id', lock.holder?.id && h('span', { class: 'token' }, lock.holder.id), 'long'],
      ['Permits', lock.permits > 1 ? count(lock.permits) : null],
    ),
    several,
    several && h('ul', { class: 'holders' }, h('li', {}, holder(lock.holder)), others),
  ];
}

const renewed = ({ renewed, failed }) => (failed ? `${count(renewed)}, ${count(failed)} tries failed` : count(renewed));

/** What was left of the time it is valid for, when a renewal came latest: two thirds is as it should be. */
function margin(renewals) {
  const least = renewals?.least_margin ?? null;
  if (least === null) return null;
  return h('span', { class: least < 1 / 3 ? 'bad' : null, title: 'Of its validity, what was left when a renewal came latest. Two thirds is as it should be.' }, share(least));
}

/** Who has ended whose hold, and why. */
function ended(revocations) {
  if (!revocations.length) return [];
  const one = ({ at, by, why, now, label }) => h('li', {}, time(at), ' ', foreign(by, 'host'), now ? ' freed it at once' : ' revoked it', label && [' from ', foreign(label, 'rest')], ': ', foreign(why, 'reason'));
  return [h('h3', {}, 'Revoked'), h('ul', { class: 'holders' }, revocations.slice(0, 10).map(one))];
}

function line(queue) {
  if (!queue.length) return [h('h3', {}, 'In line'), h('p', { class: 'none' }, 'Nobody waits.')];
  const waits = ({ label, waited_ms: waited }) => h('li', {}, holder({ label }), ' ', waited === null ? null : counting(waited, 1));
  return [h('h3', {}, `In line (${count(queue.length)})`), h('ol', { class: 'line' }, queue.slice(0, 200).map(waits)), queue.length > 200 && h('p', {}, 'The first 200 are shown.')];
}

function history(past) {
  const quantiles = (title, one) =>
    one && h('tr', {}, h('th', { scope: 'row' }, title), [one.p50_ms, one.p90_ms, one.p99_ms, one.max_ms].map((ms) => h('td', {}, span(ms))));
  const rows = [quantiles('Waited', past.waited), quantiles('Held', past.held)].filter(Boolean);
  const heads = ['', 'p50', 'p90', 'p99', 'max'].map((text) => (text ? h('th', { scope: 'col' }, text) : h('td')));
  return [
    h('h3', {}, 'In the last hour'),
    facts(
      ['Attempts', count(past.attempts)],
      ['Met somebody', `${count(past.contended)} (${share(past.contended_share)})`],
      ['Lost', past.lost ? count(past.lost) : null],
      ['Held too long', past.overdue ? count(past.overdue) : null],
      ['Released too late', past.late_releases ? count(past.late_releases) : null],
      ['Failed', past.failed ? count(past.failed) : null],
      ['Limit of a hold', past.limit_ms ? span(past.limit_ms) : null],
      ['Renewed', past.renewals ? renewed(past.renewals) : null],
      ['Least margin', margin(past.renewals)],
      ['Kept from running twice', past.prevented.marks + past.prevented.fences ? count(past.prevented.marks + past.prevented.fences) : null],
    ),
    rows.length > 0 && h('table', { class: 'small' }, h('caption', { class: 'unseen' }, 'How long it was waited for and held'), h('thead', {}, h('tr', {}, heads)), h('tbody', {}, rows)),
    past.longest.length > 0 && [h('h3', {}, 'Held longest'), h('ul', { class: 'holders longest' }, past.longest.map((one) => h('li', {}, holder(one), h('span', { class: 'number-text' }, span(one.held_ms)), time(one.at))))],
  ];
}
