// What the server is asked, and told.

/** What went wrong, in words for people, and what to do about it where that is known. */
export class Refused extends Error {
  constructor({ status, code, message, fix }) {
    super(message);
    Object.assign(this, { status, code, fix });
  }
}

const PATIENCE = 10_000;

/** Asks; `parameters` that are `null` or empty are left out. */
export async function ask(path, parameters = {}, { signal } = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== '') query.set(key, value);
  }
  const text = query.toString();
  return answer(`api/v1/${path}${text && `?${text}`}`, { signal: whichever(signal) });
}

/** The token that actions need: it is asked for once, and lives as long as this page does. */
let token = null;

export const hasToken = () => token !== null;

export function remember(given) {
  token = given;
}

/** Has something done. */
export async function act(verb, body) {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  try {
    return await answer(`api/v1/${verb}`, { method: 'POST', headers, body: JSON.stringify(body), signal: whichever() });
  } catch (error) {
    if (error.status === 401) token = null;
    throw error;
  }
}

async function answer(url, options) {
  let response;
  try {
    response = await fetch(url, { cache: 'no-store', credentials: 'same-origin', ...options });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Refused({ status: 0, code: 'unreachable', message: 'The server does not answer.' });
  }
  const body = await response.json().catch(() => null);
  if (!response.ok || body === null) {
    const told = body?.error ?? { code: 'unknown', message: `The server answered ${response.status}.` };
    throw new Refused({ status: response.status, ...told });
  }
  return body;
}

/** Ends when its asker wants no more of it, or when it has taken too long. */
function whichever(signal) {
  const late = AbortSignal.timeout(PATIENCE);
  return signal ? AbortSignal.any([signal, late]) : late;
}
