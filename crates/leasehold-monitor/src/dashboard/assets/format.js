// How numbers, spans and instants are written.

const COUNT = new Intl.NumberFormat('en');

export const count = (number) => COUNT.format(number);

/** `0.6 ms`, `840 ms`, `4.2 s`, `3m 20s`, `2h 05m`, `3d 4h`: two places, whatever the size. */
export function span(ms) {
  if (ms < 10 && !Number.isInteger(ms)) return `${Math.max(0.1, ms).toFixed(1)} ms`;
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m ${two(seconds % 60)}s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours}h ${two(minutes % 60)}m`;
  return `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

/** Whole seconds at the least: what counts on by itself would flicker else. */
export const seconds = (ms) => (ms < 10_000 ? `${Math.max(0, Math.floor(ms / 1000))} s` : span(ms));

/** `12 %`; what is little is not nothing. */
export function share(part) {
  const percent = part * 100;
  return percent > 0 && percent < 1 ? '< 1 %' : `${Math.round(percent)} %`;
}

const two = (number) => String(number).padStart(2, '0');

/** In which zone times are shown: UTC, or that of the browser. */
export const zone = {
  isUtc: false,
  get name() {
    return zone.isUtc ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone;
  },
};

const formats = new Map();

function format(options) {
  const key = `${zone.name} ${JSON.stringify(options)}`;
  if (!formats.has(key)) {
    formats.set(key, new Intl.DateTimeFormat('en-GB', { hourCycle: 'h23', ...options, timeZone: zone.name }));
  }
  return formats.get(key);
}

const DAY = { day: '2-digit', month: 'short' };
const MINUTE = { hour: '2-digit', minute: '2-digit' };
const SECOND = { ...MINUTE, second: '2-digit' };

/** `14:03`. */
export const minute = (at) => format(MINUTE).format(at);

/** `14:03:22`. */
export const second = (at) => format(SECOND).format(at);

/** `29 Nov`. */
export const day = (at) => format(DAY).format(at);

/** `14:03:22`, with the day in front unless it is today's. */
export function instant(at) {
  return day(at) === day(Date.now()) ? second(at) : `${day(at)} ${second(at)}`;
}

/** With day, year and zone: for titles. */
export const exact = (at) => `${format({ ...DAY, year: 'numeric', ...SECOND }).format(at)} ${zone.name}`;

/** What can't be seen, or turns the text around, is written as its number: names that differ must look different. */
export function visible(text) {
  return text.replace(UNSEEN, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);
}

/** Blanks are seen, but not at an end, nor which kind of blank it is. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]|^ | $|(?! )\p{Zs}/gu;

/** `host/pid/job`, as far as it is so. */
export function label(text) {
  const parts = text.split('/');
  const isOurs = parts.length >= 3 && /^\d+$/.test(parts[1]);
  return isOurs ? { host: parts[0], process: `${parts[0]}/${parts[1]}` } : { host: text, process: text };
}
