// What an operator can do: each asks for the name, who, why, and once for the token.

import { act, hasToken, remember } from './api.js';
import { dialog } from './dialog.js';
import { foreign, h } from './dom.js';
import { visible } from './format.js';

const MINUTE = 60_000;

/** Who acted last: the same most often. */
let lastBy = '';

/** How to end a hold. */
export function revoke(app, lock) {
  const holders = [lock.holder, ...lock.others].filter((holder) => holder?.id);
  const who = holders.length > 1 && select('Which hold', [['', 'All of them'], ...holders.map((one) => [one.id, visible(one.label)])]);
  const how = radios('How', [
    ['gently', 'Have its holder stop', 'Refuses to renew: the holder is told, stops its job and releases. Nobody else gets it before.'],
    ['now', 'Free it now', 'For a holder that is known to be dead. If it is not, two may run until it next renews.'],
  ]);
  form(app, {
    title: 'Revoke',
    verb: 'revoke',
    name: lock.name,
    does: 'Revoke',
    fields: [who && who.element, how.element],
    body: () => ({ name: lock.name, holder: (who && who.value()) || null, now: how.value() === 'now' }),
  });
}

export function trigger(app, job) {
  const note = h('p', { class: 'hint' }, 'A node that has this job runs it now, once, beside its schedule; under its lock like any run.');
  form(app, { title: 'Trigger', verb: 'trigger', name: job.name, does: 'Trigger a run', fields: [note], body: () => ({ job: job.name }) });
}

export function pause(app, job) {
  const spans = [['', 'Until it is resumed'], [15, '15 minutes'], [60, '1 hour'], [240, '4 hours'], [1440, '1 day'], [10080, '7 days']];
  const long = select('For how long', spans);
  const body = () => ({ job: job.name, for_ms: long.value() ? Number(long.value()) * MINUTE : null });
  form(app, { title: 'Pause', verb: 'pause', name: job.name, does: 'Pause', fields: [long.element], body });
}

export function resume(app, job) {
  const note = h('p', { class: 'hint' }, 'Its next tick is run again. Ticks that came while it was paused are not made up for.');
  form(app, { title: 'Resume', verb: 'resume', name: job.name, does: 'Resume', fields: [note], body: () => ({ job: job.name }) });
}

function form(app, { title, verb, name, does, fields, body }) {
  const shown = dialog({ title: h('span', {}, `${title} `, foreign(name)), kind: 'small' });
  const by = field('Who you are', { autocomplete: 'username', value: lastBy });
  const why = field('Why', { autocomplete: 'off' }, 'Stands in the record of what was done.');
  const typed = field('Type its name', { autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off' });
  const token = !hasToken() && field('Token', { type: 'password', autocomplete: 'off' }, 'The one that leasehold serve was started with. Kept until this page is closed.');
  const wrong = h('p', { class: 'wrong', role: 'alert' });
  const button = h('button', { type: 'submit', class: `does${verb === 'revoke' ? ' danger' : ''}` }, does);
  const cancel = h('button', { type: 'button', on: { click: () => shown.close() } }, 'Cancel');
  const all = [...fields, by.element, why.element, typed.element, token && token.element].filter(Boolean);
  const element = h('form', { novalidate: true, autocomplete: 'off' }, all, wrong, h('div', { class: 'buttons' }, cancel, button));
  shown.body.append(element);
  (lastBy ? why : by).input.focus();

  element.addEventListener('submit', async (event) => {
    event.preventDefault();
    const missing = [
      [by, 'Say who you are.', by.value()],
      [why, 'Say why.', why.value()],
      [typed, 'This is not its name.', [name, visible(name)].includes(typed.value())],
      [token, 'An action needs the token.', token && token.value()],
    ].find(([one, , good]) => one && !good);
    if (missing) return tell(missing[1], missing[0].input);
    lastBy = by.value();
    if (token) remember(token.value());
    button.disabled = true;
    try {
      const answer = await act(verb, { ...body(), why: why.value(), by: by.value(), confirm: name });
      shown.close();
      app.tell(`${done(verb, answer)}: ${visible(name)}`);
      app.refresh();
    } catch (error) {
      refused(error);
    } finally {
      button.disabled = false;
    }
  });

  function refused(error) {
    if (error.status === 401 && !token) {
      // The token that was remembered is no longer right: it is asked for in a form of its own.
      shown.close();
      form(app, { title, verb, name, does, fields, body });
      document.querySelector('dialog:last-of-type .wrong').append(sentence(error));
      return;
    }
    tell(sentence(error), error.status === 401 ? token.input : button);
  }

  function tell(text, input) {
    wrong.replaceChildren(text);
    for (const one of element.querySelectorAll('[aria-invalid]')) one.removeAttribute('aria-invalid');
    if (input !== button) input.setAttribute('aria-invalid', 'true');
    input.focus();
  }
}

const DONE = { trigger: 'Triggered', pause: 'Paused', resume: 'Resumed', revoked: 'Revoked', freed: 'Freed', nothing: 'Nobody held it any more' };

/** What came of it, in a word: it may have ended by itself meanwhile. */
function done(verb, { done: outcome, resumed }) {
  return resumed === false ? 'It was not paused' : (DONE[outcome] ?? DONE[verb]);
}

const sentence = ({ message, fix }) => (fix ? `${message}: ${fix}` : message);

function field(title, attributes, hint = null) {
  const input = h('input', { type: 'text', ...attributes });
  const element = h('label', { class: 'field' }, h('span', {}, title), input, hint && h('small', {}, hint));
  return { element, input, value: () => input.value.trim() };
}

function select(title, options) {
  const input = h('select', {}, options.map(([value, text]) => h('option', { value }, text)));
  return { element: h('label', { class: 'field' }, h('span', {}, title), input), value: () => input.value };
}

function radios(title, options) {
  const one = ([value, text, hint], nth) => {
    const input = h('input', { type: 'radio', name: 'how', value, checked: nth === 0 });
    return h('label', { class: 'radio' }, input, h('span', {}, text, h('small', {}, hint)));
  };
  const element = h('fieldset', {}, h('legend', {}, title), options.map(one));
  return { element, value: () => element.querySelector(':checked').value };
}
