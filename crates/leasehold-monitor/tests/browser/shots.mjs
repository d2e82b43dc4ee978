// Pictures of every view: node shots.mjs FOLDER. For people to look at.

import { mkdir } from 'node:fs/promises';

import { Looker, launch } from './browser.mjs';
import { Fixture } from './fixture.mjs';
import { HOSTILE, fleet, lock, nobody } from './made_up.mjs';

const folder = process.argv[2];
await mkdir(folder, { recursive: true });
const browser = await launch();
const full = await new Fixture(fleet()).start();
const empty = await new Fixture(nobody()).start();
const hostile = await new Fixture({ ...fleet(), locks: HOSTILE.map((name) => lock(name)) }).start();

const VIEWS = ['locks', 'waiting', 'contention', 'runs', 'schedule', 'store'];

for (const [size, scheme] of [['wide', 'light'], ['wide', 'dark'], ['phone', 'light'], ['phone', 'dark']]) {
  const looker = await Looker.at(browser, full.url, { size, scheme });
  const shot = (name) => looker.page.screenshot({ path: `${folder}/${size}-${scheme}-${name}.png` });
  for (const name of VIEWS) {
    await looker.view(name);
    await shot(name);
  }
  await looker.view('runs', 'job=backup&hours=168&until=' + Date.UTC(2026, 9, 28));
  await shot('runs-clocks');
  await looker.view('runs', 'by=node');
  await shot('runs-nodes');
  await looker.view('runs', 'job=billing%2Fnightly');
  await shot('runs-job');
  await looker.page.click('tbody .open');
  await shot('run-sheet');
  await looker.press('Escape');
  await looker.view('locks', 'lock=billing%2Fnightly');
  await shot('lock-sheet');
  await looker.page.click('.sheet .does');
  await shot('revoke');
  await looker.press('Escape', 'Escape');
  await looker.view('schedule');
  await looker.page.click('tbody .open');
  await looker.settled();
  await shot('job-sheet');
  await looker.press('Escape', '?');
  await shot('keys');
  await looker.press('Escape');
  full.away = true;
  await looker.sees(() => document.querySelector('#live').dataset.state === 'away');
  await shot('away');
  full.away = false;
  if (looker.wrong.length) console.error(size, scheme, looker.wrong);
  const none = await Looker.at(browser, empty.url, { size, scheme });
  for (const name of VIEWS) {
    await none.view(name);
    await none.page.screenshot({ path: `${folder}/${size}-${scheme}-empty-${name}.png` });
  }
  const names = await Looker.at(browser, hostile.url, { size, scheme });
  await names.view('locks');
  await names.page.screenshot({ path: `${folder}/${size}-${scheme}-hostile.png` });
}
await browser.close();
await Promise.all([full.stop(), empty.stop(), hostile.stop()]);
