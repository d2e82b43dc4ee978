// What the page does in a browser. Run by tests/browser.rs, which says where the page is served.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Looker, launch } from './browser.mjs';
import { Fixture } from './fixture.mjs';
import { HOSTILE, fleet, lock, nobody } from './made_up.mjs';

const VIEWS = ['locks', 'waiting', 'contention', 'runs', 'schedule', 'store'];

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

/** A test with a server of its own, and a page that has done nothing wrong when it is over. */
function looking(title, data, does, options = {}) {
  test(title, { timeout: 240_000 }, async () => {
    const server = await new Fixture(data()).start();
    const looker = await Looker.at(browser, server.url, options);
    try {
      await does(looker, server);
      await looker.leaves();
    } finally {
      await server.stop();
    }
  });
}

const state = (looker, wanted) => looker.sees((wanted) => document.querySelector('#live').dataset.state === wanted, wanted);

for (const [size, scheme] of [['wide', 'light'], ['wide', 'dark'], ['phone', 'light']]) {
  looking(`every view is accessible: ${size}, ${scheme}`, fleet, async (looker) => {
    for (const name of VIEWS) {
      await looker.view(name);
      await looker.accessible(`${name}, ${size}, ${scheme}`);
      const wide = await looker.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, `${name} is ${wide} pixels too wide`);
    }
  }, { size, scheme });
}

looking('every dialog is accessible', fleet, async (looker) => {
  const { page } = looker;
  const good = async (which) => {
    await looker.accessible(which);
    const wide = await page.$eval('dialog:last-of-type', (dialog) => dialog.scrollWidth - dialog.clientWidth);
    assert.ok(wide <= 0, `${which} is ${wide} pixels too wide`);
  };
  await looker.view('locks', 'lock=billing%2Fnightly');
  await looker.sees(() => document.querySelector('.sheet .line'));
  await good('a lock');
  await page.click('.sheet .does');
  await good('revoke');
  await looker.press('Escape', 'Escape');
  await looker.view('schedule');
  await page.click('tbody .open');
  await looker.sees(() => document.querySelector('.sheet .ticks'));
  await good('a job');
  await looker.press('Escape');
  await looker.view('runs', 'job=billing%2Fnightly');
  await page.click('tbody .open');
  await good('a run');
  await looker.press('Escape', '?');
  await good('keys');
}, { size: 'phone', scheme: 'dark' });

looking('empty views teach', nobody, async (looker) => {
  for (const name of VIEWS) {
    await looker.view(name);
    await looker.accessible(`${name}, empty`);
    assert.match(await looker.text('.nothing'), /leasehold (run|schedule|doctor)/, name);
  }
}, { scheme: 'dark' });

looking('all of it goes by keyboard', fleet, async (looker) => {
  const { page } = looker;
  await looker.view('locks');
  // Tab: the way past the bar, the views, what is in the bar, the tools, the table.
  await page.evaluate(() => document.activeElement.blur());
  await looker.press('Tab');
  assert.equal(await looker.focused(), 'Skip to what is shown');
  await looker.press('Enter', 'Tab');
  assert.equal(await looker.focused(), 'Search names and holders');
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.equal(outline, 'solid', 'the focus is seen');
  // Into the table, through it, into a row, and back to the row.
  await looker.press('Escape', 't');
  assert.equal(await looker.focused(), 'backup');
  await looker.press('ArrowDown', 'ArrowDown', 'ArrowUp');
  assert.equal(await looker.focused(), 'billing/invoices');
  await looker.press('End');
  assert.equal(await looker.focused(), 'thumbnails');
  await looker.press('Home', 'ArrowDown', 'ArrowDown', 'Enter');
  await looker.sees(() => document.querySelector('dialog[open] .line'));
  assert.match(page.url(), /lock=billing%2Fnightly/);
  for (let nth = 0; nth < 6; nth++) {
    await looker.press('Tab');
    assert.ok(await page.evaluate(() => document.activeElement.closest('dialog') !== null || document.activeElement === document.body), 'the focus stays in the dialog');
  }
  await looker.press('Escape');
  await looker.sees(() => !document.querySelector('dialog'));
  assert.equal(await looker.focused(), 'billing/nightly');
  assert.doesNotMatch(page.url(), /lock=/);
  // The views by number, the search, sorting by its heading.
  for (const [nth, name] of VIEWS.entries()) {
    await looker.press(String(nth + 1));
    await page.waitForSelector(`#to-${name}[aria-current=page]`);
  }
  await looker.press('1');
  await looker.view('locks');
  await looker.press('/');
  await page.keyboard.type('tenant');
  await looker.sees(() => document.querySelectorAll('tbody tr').length === 2);
  await looker.press('Escape');
  await page.focus('[data-by="-held_for"]');
  await looker.press('Enter');
  await looker.sees(() => document.querySelector('[aria-sort]')?.getAttribute('aria-sort') === 'descending');
  assert.equal(await looker.focused(), 'Held for');
  // The list of keys, and that they can be turned off.
  await looker.press('?');
  await looker.sees(() => document.querySelector('dialog .keys'));
  await looker.press('Tab', 'Tab');
  await looker.press('Space', 'Escape', '6');
  await looker.settled();
  assert.ok(await page.$('#to-locks[aria-current=page]'), 'single keys are off');
});

looking('hostile names are text', () => {
  const data = fleet();
  data.locks = HOSTILE.map((name, nth) => lock(name, { holder: { id: '1'.repeat(32), label: `${HOSTILE[nth]}/1/x`, host: HOSTILE[nth], library: null }, waiting: 1 }));
  data.waits = HOSTILE.map((name) => ({ name, waiter: { label: name, waited_ms: 5 }, holder: { label: name } }));
  const counted = data.contention('1h').locks[0];
  data.contention = (since) => ({ ...fleet().contention(since), locks: HOSTILE.map((name) => ({ ...counted, name })) });
  data.runs = HOSTILE.map((job) => ({ ...data.runs[0], job, node: `${job}/1/x`, reason: job, output: job }));
  data.jobs = HOSTILE.map((name) => ({ ...data.jobs[0], name, when: name, paused: { by: name, why: name, since: new Date().toISOString(), until: null } }));
  data.store.shown = HOSTILE[0];
  data.store.findings = HOSTILE.map((name) => ({ severity: 'warning', subject: name, message: name, fix: name }));
  return data;
}, async (looker) => {
  const { page } = looker;
  for (const name of VIEWS) {
    await looker.view(name);
    const text = await page.$eval('main', (main) => main.textContent);
    assert.ok(text.includes('<script>window.hacked = 1</script>'), name);
    assert.ok(text.includes('report-\\u{202e}gnp.exe'), `${name}: what turns the text around is shown as its number`);
    assert.ok(!text.includes('\u202e'), name);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 0, `${name} is ${wide} pixels too wide`);
    assert.equal(await page.$$eval('main script, main img, main iframe', (all) => all.length), 0);
  }
  await looker.view('locks');
  for (const nth of HOSTILE.keys()) {
    await page.evaluate((nth) => document.querySelectorAll('tbody .open')[nth].click(), nth);
    await looker.sees(() => document.querySelector('.sheet .facts'));
    await looker.press('Escape');
    await looker.sees(() => !document.querySelector('dialog'));
  }
});

looking('10,000 locks are quick', () => ({ ...fleet(), locks: Array.from({ length: 10_000 }, (_, nth) => lock(`tenant/${String(nth).padStart(5, '0')}/export`)) }), async (looker) => {
  const { page } = looker;
  await looker.view('locks');
  assert.equal((await page.$$('tbody tr')).length, 100);
  assert.match(await looker.text('.pager'), /1–100 of 10,000/);
  const elements = await page.evaluate(() => document.querySelectorAll('*').length);
  assert.ok(elements < 3000, `${elements} elements`);
  await looker.press(']');
  await looker.sees(() => document.querySelector('tbody .open').textContent === 'tenant/00100/export');
  await page.type('input[type=search]', '09999');
  await looker.sees(() => document.querySelectorAll('tbody tr').length === 1);
  assert.deepEqual(await looker.texts('tbody .open'), ['tenant/09999/export']);
});

looking('it is live, and says so when it is not', fleet, async (looker, server) => {
  const { page } = looker;
  await looker.view('locks');
  await state(looker, 'live');
  await page.evaluate(() => [...document.querySelectorAll('tbody .open')].find((open) => open.textContent === 'backup').focus());
  const asked = () => server.asked.filter((one) => one.includes('/locks')).length;
  const [before, began] = [asked(), Date.now()];
  server.data.locks.push(lock('appeared/just-now'));
  server.changed();
  await looker.sees(() => document.querySelector('tbody').textContent.includes('appeared/just-now'));
  const spans = Math.ceil((Date.now() - began) / 5000);
  assert.ok(asked() - before <= 1 + spans, 'a change is asked for once, and perhaps each five seconds is over just then');
  assert.equal(await looker.focused(), 'backup', 'the focus stays');
  server.data.locks = server.data.locks.filter(({ name }) => name !== 'backup');
  server.changed();
  await looker.sees(() => !document.querySelector('tbody').textContent.includes('backup'));
  assert.equal(await looker.focused(), 'billing/invoices', 'what is now in its place has it');

  // No answers at all: it says so and how old it is, nothing counts on, and it comes back by itself.
  server.away = true;
  await looker.press('r');
  await state(looker, 'away');
  assert.match(await looker.text('.notice'), /does not answer.*as it was at \d\d:\d\d:\d\d/);
  await looker.accessible('away');
  const counted = () => looker.texts('tbody .counts');
  const frozen = await counted();
  await looker.sees(() => /^[2-9] s ago|^\d\d s ago/.test(document.querySelector('#live-age').textContent));
  assert.deepEqual(await counted(), frozen, 'what is not known is not counted on');
  server.tells = false;
  server.away = false;
  // No events, but answers: it asks, each five seconds.
  await looker.press('r');
  await state(looker, 'polling');
  assert.equal(await looker.text('#live-word'), 'Not live');
  server.data.locks.push(lock('appeared/later'));
  await looker.sees(() => document.querySelector('tbody').textContent.includes('appeared/later'));
  server.tells = true;
  await looker.press('r');
  await state(looker, 'live');
  await looker.sees(() => !document.querySelector('.notice'));

  // The store is away: the server tells what it knew last.
  server.data.silence = { age_ms: 90_000, away: { message: 'connection refused', for_ms: 88_000 } };
  server.changed();
  await state(looker, 'stale');
  assert.match(await looker.text('.notice'), /store does not answer: connection refused\. What/);
  assert.match(await looker.text('#live-age'), /1m 3\d s? ?ago|1m 3\ds ago/);
  // What the browser itself says of a server that is away, and of events that there are none of.
  looker.wrong = looker.wrong.filter((one) => !/net::ERR_|status of 503/.test(one));
});

looking('a long examination holds up nothing else', fleet, async (looker, server) => {
  server.holds.add('store');
  await looker.page.reload();
  await looker.sees(() => document.querySelectorAll('tbody tr').length > 1);
  await state(looker, 'live');
  await looker.press('4');
  await looker.sees(() => document.querySelector('.gantt .run'));
  assert.ok(await looker.page.$eval('#to-store .number', (number) => number.hidden), 'nothing is known of it');
});

looking('actions ask for name, who, why and once for the token', fleet, async (looker, server) => {
  const { page } = looker;
  const fill = async (values) => {
    for (const [label, value] of Object.entries(values)) {
      const input = await page.evaluateHandle((label) => [...document.querySelectorAll('dialog:last-of-type .field')].find((field) => field.firstChild.textContent === label).querySelector('input, select'), label);
      await input.evaluate((input) => (input.value = ''));
      await input.type(value);
    }
  };
  const submit = () => page.click('dialog:last-of-type [type=submit]');
  const wrong = (pattern) => looker.sees((pattern) => new RegExp(pattern).test(document.querySelector('dialog:last-of-type .wrong')?.textContent), pattern);

  await looker.view('locks', 'lock=billing%2Fnightly');
  await looker.sees(() => document.querySelector('.sheet .does')?.hidden === false);
  await page.click('.sheet .does');
  await submit();
  await wrong('who you are');
  await fill({ 'Who you are': 'anna' });
  await submit();
  await wrong('Say why');
  await fill({ Why: 'stuck since noon', 'Type its name': 'billing/nightl' });
  await submit();
  await wrong('not its name');
  await fill({ 'Type its name': 'billing/nightly', Token: 'not the right one' });
  await submit();
  await wrong('token is wrong.*--token-file');
  assert.deepEqual(server.data.acts, []);
  await fill({ Token: 'a-token-for-tests-only' });
  await submit();
  await looker.sees(() => document.querySelector('.told')?.textContent.includes('Revoked: billing/nightly'));
  assert.deepEqual(server.data.acts.pop(), { verb: 'revoke', name: 'billing/nightly', holder: null, now: false, why: 'stuck since noon', by: 'anna', confirm: 'billing/nightly' });

  // The token is known now, and who acts too; and it is nowhere but in memory.
  await looker.press('Escape');
  await looker.view('schedule');
  for (const [button, verb, more] of [['Trigger…', 'trigger', {}], ['Pause…', 'pause', { for_ms: 3_600_000 }]]) {
    await page.click('tbody .open');
    await page.evaluate((button) => [...document.querySelectorAll('.sheet button')].find((one) => one.textContent === button).click(), button);
    if (verb === 'pause') await page.select('dialog:last-of-type select', '60');
    await fill({ Why: 'release', 'Type its name': 'backup' });
    assert.ok(!(await page.$('dialog:last-of-type [type=password]')), 'it is asked for once');
    await submit();
    await looker.sees((verb) => document.querySelector('.told')?.textContent.toLowerCase().startsWith(verb), verb);
    assert.deepEqual(server.data.acts.pop(), { verb, job: 'backup', ...more, why: 'release', by: 'anna', confirm: 'backup' });
    await looker.press('Escape');
  }
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href]));
  assert.ok(!kept.includes('a-token'), kept);

  // A token that is no longer right is asked for anew; a server without one says how to give it one.
  server.data.token = 'another-token-by-now';
  await page.click('tbody .open');
  await page.evaluate(() => [...document.querySelectorAll('.sheet button')].find((one) => one.textContent === 'Trigger…').click());
  await fill({ Why: 'again', 'Type its name': 'backup' });
  await submit();
  await wrong('token is wrong');
  await page.waitForSelector('dialog:last-of-type [type=password]');
  server.data.token = null;
  await fill({ Why: 'again', 'Type its name': 'backup', Token: 'any' });
  await submit();
  await wrong('only shows.*--token-file');
  looker.wrong = looker.wrong.filter((one) => !/status of 40[13]/.test(one));
});

looking('runs show what went wrong', fleet, async (looker, server) => {
  const { page } = looker;
  await looker.view('runs', 'hours=24');
  const shapes = (selector) => page.$$eval(selector, (all) => all.length);
  for (const selector of ['.run.done', '.run.failed', '.run.gone', '.run.lost', '.run.running.open', '.mark.missed', '.mark.skipped', 'rect.overlap', '.run.overlaps', '.mark.due', 'rect.paused']) {
    assert.ok((await shapes(`.gantt ${selector}`)) > 0, selector);
  }
  assert.match(await looker.text('.legend'), /gone 1/);
  // A run whose node has died stands where it ran, and says so.
  await page.$eval('.gantt .run.gone', (bar) => bar.dispatchEvent(new MouseEvent('click', { bubbles: true })));
  await looker.sees(() => document.querySelector('.sheet .facts'));
  assert.match(await looker.text('.sheet'), /gone\s+Its node has died.*batch-eu-2/s);
  await looker.press('Escape');
  // The clocks in Berlin went back on 25 October; those in New York a week later.
  await looker.view('runs', `job=backup&hours=168&until=${Date.UTC(2026, 9, 28)}`);
  assert.equal(await shapes('.gantt rect.clocks'), 1);
  assert.match(await looker.text('main'), /On 2026-10-25 clocks in Europe\/Berlin go back from 03:00 to 02:00/);
  const [from, to] = await page.$eval('.gantt rect.clocks', (day) => [Number(day.getAttribute('x')), Number(day.getAttribute('x')) + Number(day.getAttribute('width'))]);
  const width = await page.$eval('.gantt svg', (drawing) => Number(drawing.getAttribute('width')));
  assert.ok(Math.abs(((to - from) / width) * 168 - 25) < 0.1, 'that day has 25 hours');
  // A tick of which there is no record, where one job is looked at.
  await looker.view('runs', 'job=search%2Freindex');
  const gaps = await shapes('.gantt .mark.gap');
  const own = server.data.runs.filter(({ job, tick }) => job === 'search/reindex' && tick);
  server.data.runs = server.data.runs.filter((run) => run !== own[2]);
  server.changed();
  await looker.sees((gaps) => document.querySelectorAll('.gantt .mark.gap').length === gaps + 1, gaps);
  // A bar opens its run, with what it wrote as text.
  await looker.view('runs', 'job=billing%2Fnightly');
  await page.click('.gantt .run.failed');
  assert.match(await looker.text('.sheet pre'), /error: <b>upstream<\/b> timed out/);
  await looker.press('Escape', '[');
  await looker.sees(() => location.hash.includes('until='));
});
