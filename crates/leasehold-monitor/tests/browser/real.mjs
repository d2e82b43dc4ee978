// The page before a real server: what tests/browser.rs has going on in a store is seen, as it happens, and a hold is ended from here.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Looker, launch } from './browser.mjs';

const { LEASEHOLD_PAGE: page, LEASEHOLD_TOKEN: token } = process.env;

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

test('a real store', { timeout: 240_000 }, async () => {
  // Where it is mounted, without the slash that it needs: it goes there by itself.
  const looker = await Looker.at(browser, page);
  const { page: tab } = looker;
  // In one go: what is shown may be drawn anew each second, and between two steps another may have come into its place.
  const presses = (selector) => tab.evaluate((selector) => document.querySelector(selector).click(), selector);
  assert.ok(looker.page.url().startsWith(`${page}/`), looker.page.url());
  await looker.view('locks');
  await looker.sees(() => document.querySelector('#live').dataset.state === 'live');
  await looker.sees(() => document.querySelector('tbody').textContent.includes('billing/nightly'));
  assert.match(await looker.text('tbody'), /<script>window\.hacked = 1<\/script>/);
  await looker.accessible('locks');

  await looker.view('waiting');
  await looker.sees(() => document.querySelector('.card')?.innerText.includes('Held by web-3/41/nightly') && document.querySelector('.card .line')?.innerText.includes('web-4/7/nightly'));

  await looker.view('schedule');
  await looker.sees(() => document.querySelector('tbody')?.textContent.includes('heartbeat'));
  await presses('tbody .open');
  await looker.sees(() => document.querySelectorAll('.sheet .ticks tbody tr').length === 10);
  await looker.accessible('a job');
  await looker.press('Escape');
  await looker.view('runs', 'hours=1');
  await looker.sees(() => document.querySelector('.gantt .run.done'));
  await looker.accessible('runs');

  await looker.view('contention');
  await looker.sees(() => document.querySelector('tbody')?.textContent.includes('billing/nightly'));
  await looker.accessible('contention');
  await looker.view('store');
  await looker.sees(() => document.querySelector('.health.fine') && document.querySelector('.findings li'));
  await looker.accessible('store');

  // Its holder is told, and the one who waits has it; nobody has to reload for that.
  await looker.view('locks', 'lock=billing%2Fnightly');
  await looker.sees(() => document.querySelector('.sheet .does')?.hidden === false);
  await presses('.sheet .does');
  const values = { 'Who you are': 'ada', Why: 'it hangs', 'Type its name': 'billing/nightly', Token: token };
  for (const [label, value] of Object.entries(values)) {
    const input = await tab.evaluateHandle((label) => [...document.querySelectorAll('dialog:last-of-type .field')].find((field) => field.firstChild.textContent === label).querySelector('input'), label);
    await input.type(value);
  }
  await tab.click('dialog:last-of-type [type=submit]');
  await looker.sees(() => document.querySelector('.told')?.textContent.includes('Revoked: billing/nightly'));
  await looker.sees(() => document.querySelector('.sheet .facts').textContent.includes('web-4/7/nightly'));
  await looker.sees(() => document.querySelector('.sheet').textContent.includes('it hangs'));
  await looker.leaves();
});
