// A server with the made-up fleet behind the API, and in front of it the page: the one that is served elsewhere, or the files as they are.

import { readFile } from 'node:fs/promises';
import http from 'node:http';
import { extname } from 'node:path';

import { nextOf } from './made_up.mjs';

const FILES = new URL('../../src/dashboard/assets/', import.meta.url);
const KINDS = { '.html': 'text/html', '.css': 'text/css', '.js': 'text/javascript', '.svg': 'image/svg+xml' };
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export class Fixture {
  #server = http.createServer((request, response) => this.#answer(request, response));
  #streams = new Set();
  #page;
  #away = false;
  /** Whether events are told. */
  tells = true;
  /** What is not answered. */
  holds = new Set();
  asked = [];

  constructor(data, page = process.env.LEASEHOLD_PAGE) {
    this.data = data;
    this.#page = page;
  }

  async start() {
    await new Promise((listening) => this.#server.listen(0, '127.0.0.1', listening));
    this.url = `http://127.0.0.1:${this.#server.address().port}/`;
    return this;
  }

  stop() {
    this.#server.closeAllConnections();
    return new Promise((closed) => this.#server.close(closed));
  }

  /** Tells those who listen. */
  changed() {
    const data = JSON.stringify({ at: new Date().toISOString(), version: Date.now(), held: 1, waited: 0, running: 0 });
    for (const stream of this.#streams) stream.write(`event: change\ndata: ${data}\n\n`);
  }

  /** Answers nobody, or everybody again. */
  set away(is) {
    this.#away = is;
    if (is) this.#server.closeAllConnections();
  }

  async #answer(request, response) {
    const url = new URL(request.url, this.url);
    if (this.#away) return request.socket.destroy();
    this.asked.push(`${request.method} ${url.pathname}${url.search}`);
    const path = url.pathname.slice(1);
    if (!path.startsWith('api/v1/')) return this.#file(path || 'index.html', request, response);
    const verb = path.slice('api/v1/'.length);
    if (this.holds.has(verb)) return;
    if (verb === 'events') return this.#stream(response);
    if (request.method === 'POST') return this.#act(verb, request, response);
    const answer = ANSWERS[verb]?.(this.data, url.searchParams);
    if (!answer) return json(response, 404, { error: { code: 'not_found', message: `There is no ${path}.`, fix: null } });
    json(response, 200, answer);
  }

  async #file(path, request, response) {
    if (this.#page) {
      const asked = http.get(new URL(path === 'index.html' ? '' : path, this.#page), (given) => {
        response.writeHead(given.statusCode, given.headers);
        given.pipe(response);
      });
      return asked.on('error', () => request.socket.destroy());
    }
    const text = await readFile(new URL(path.replace('assets/', ''), FILES)).catch(() => null);
    if (text === null) return json(response, 404, {});
    response.writeHead(200, { 'content-type': KINDS[extname(path)], 'content-security-policy': POLICY, 'cache-control': 'no-store' });
    response.end(text);
  }

  #stream(response) {
    if (!this.tells) return json(response, 503, { error: { code: 'unavailable', message: 'No events.', fix: null } });
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    response.write('retry: 300\n\n');
    this.#streams.add(response);
    response.on('close', () => this.#streams.delete(response));
  }

  async #act(verb, request, response) {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const body = JSON.parse(Buffer.concat(pieces));
    if (!this.data.token) return json(response, 403, { error: { code: 'forbidden', message: 'this server only shows', fix: 'start it with --token-file' } });
    if (request.headers.authorization !== `Bearer ${this.data.token}`) return json(response, 401, { error: { code: 'unauthorized', message: 'the token is wrong', fix: 'take the one of --token-file' } });
    this.data.acts.push({ verb, ...body });
    json(response, 200, verb === 'revoke' ? { done: 'revoked', before: null } : {});
  }
}

function json(response, status, body) {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(JSON.stringify(body));
}

const now = () => ({ at: new Date().toISOString(), age_ms: 0, away: null });

const ORDERS = {
  name: (a, b) => (a.name < b.name ? -1 : 1),
  '-held_for': (a, b) => (b.held_for_ms ?? -1) - (a.held_for_ms ?? -1),
  '-waiting': (a, b) => b.waiting - a.waiting,
  remaining: (a, b) => (a.remaining_ms ?? Infinity) - (b.remaining_ms ?? Infinity),
};

const STATES = { all: () => true, held: (lock) => lock.holder, waited: (lock) => lock.waiting > 0, kept: (lock) => !lock.holder };

const ANSWERS = {
  locks({ locks, silence }, query) {
    const words = (query.get('q') ?? '').toLowerCase();
    const has = (lock) => lock.name.toLowerCase().includes(words) || lock.holder?.label.toLowerCase().includes(words);
    const found = locks.filter((lock) => has(lock) && STATES[query.get('state') ?? 'all'](lock)).sort(ORDERS[query.get('sort') ?? 'name']);
    const offset = Number(query.get('offset') ?? 0);
    return { ...now(), ...silence, version: 1, total: found.length, held: locks.filter(STATES.held).length, waited: locks.filter(STATES.waited).length, locks: found.slice(offset, offset + Number(query.get('limit'))) };
  },
  lock({ locks, waits, contention }, query) {
    const name = query.get('name');
    const queue = waits.filter((wait) => wait.name === name).map(({ waiter }) => ({ holder: null, ...waiter }));
    return { ...now(), lock: locks.find((lock) => lock.name === name) ?? null, queue, contention: contention('1h').locks.find((one) => one.name === name) ?? null, revocations: [] };
  },
  waits: ({ waits }) => ({ ...now(), waits }),
  contention: ({ contention }, query) => contention(query.get('since')),
  jobs: ({ jobs }) => ({ ...now(), jobs }),
  runs({ runs }, query) {
    const [from, to, job] = [Date.parse(query.get('from')), Date.parse(query.get('to')), query.get('job')];
    const is = (run) => (!job || run.job === job) && Date.parse(run.written) >= from && Date.parse(run.tick ?? run.started ?? run.written) <= to;
    return { ...now(), from: query.get('from'), to: query.get('to'), runs: runs.filter(is).slice(0, Number(query.get('limit'))) };
  },
  next: (_, query) => nextOf(query.get('job'), query.get('from') ? Date.parse(query.get('from')) : Date.now(), Number(query.get('n'))),
  store: ({ store }) => store,
};
