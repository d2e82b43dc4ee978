// Who holds, who waits: as the label says it.

import { chip, foreign, h } from './dom.js';
import { label } from './format.js';

/** A holder: its host in front, as that is what one looks for; the whole label beside it. */
export function holder(one) {
  if (!one) return h('span', { class: 'none' }, '–');
  const { host } = label(one.label);
  const rest = one.label.slice((one.host ?? host).length);
  const named = one.label.startsWith(one.host ?? host) && rest ? [foreign(one.host ?? host, 'host', 'ltr'), foreign(rest, 'rest', 'ltr')] : foreign(one.label || 'no label', 'host');
  return h('span', { class: 'holder' }, named, one.library && chip('library', one.library, 'A holder of another library'));
}

const STATES = {
  held: ['held', 'Somebody has it'],
  kept: ['kept', 'Nobody works under it any more, but it is not free yet: its minimum hold runs out, or it is kept for the first who waits'],
  free: ['free', 'Nobody has it'],
  revoked: ['revoked', 'An operator has revoked it: it ends when its holder stops, or with its TTL'],
};

export function state(word) {
  const [text, title] = STATES[word] ?? [word, null];
  return chip(text, text, title);
}
