// Chromium, and pages in it that must not do certain things.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { pathToFileURL } from 'node:url';

const installed = createRequire(pathToFileURL(`${process.env.LEASEHOLD_BROWSER}/package.json`));
const { default: puppeteer } = await import(pathToFileURL(installed.resolve('puppeteer-core')));
const { source: axe } = installed('axe-core');

const FLAGS = ['--headless=new', '--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--lang=en'];

/** More than anything needs, also on a machine that has much else to do. */
const SOON = 30_000;

export const SIZES = { wide: { width: 1360, height: 860 }, phone: { width: 390, height: 844, isMobile: true, hasTouch: true, deviceScaleFactor: 2 } };

export function launch() {
  const chromium = process.env.PATH.split(delimiter).map((folder) => join(folder, 'chromium')).find(existsSync);
  assert.ok(chromium, 'there is no chromium: run scripts/servers');
  return puppeteer.launch({ executablePath: chromium, args: FLAGS, timeout: 4 * SOON, env: { ...process.env, TZ: 'Europe/Berlin' } });
}

/** A page of its own profile, with what it did that it must not do. */
export class Looker {
  #context;
  wrong = [];

  static async at(browser, url, { size = 'wide', scheme = 'light' } = {}) {
    const looker = new Looker();
    looker.url = url;
    looker.#context = await browser.createBrowserContext();
    const page = await looker.#context.newPage();
    looker.page = page;
    page.setDefaultTimeout(SOON);
    await page.setViewport(SIZES[size]);
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }]);
    await page.evaluateOnNewDocument(() => {
      window.violations = [];
      document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => window.violations.push(`${violatedDirective} ${blockedURI}`));
    });
    page.on('pageerror', (error) => looker.wrong.push(`fault: ${error.stack}`));
    page.on('console', (message) => ['error', 'warn'].includes(message.type()) && looker.wrong.push(`console: ${message.text()} ${message.location().url ?? ''}`));
    page.on('request', (request) => !request.url().startsWith(url) && looker.wrong.push(`outside: ${request.url()}`));
    page.on('dialog', (dialog) => {
      looker.wrong.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    await page.goto(url);
    return looker;
  }

  /** The view is entered, and its answer is there. */
  async view(name, query = '') {
    await this.page.evaluate((hash) => (location.hash = hash), `${name}${query && `?${query}`}`);
    await this.page.waitForSelector(`#to-${name}[aria-current=page]`);
    await this.sees(() => document.querySelector('.view > section, .view section') !== null);
    await this.settled();
  }

  /** All that was asked for has been answered and shown. */
  async settled() {
    await this.page.waitForNetworkIdle({ idleTime: 120, concurrency: 1 });
    await this.page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
  }

  /** Waits until it is so. */
  async sees(is, ...given) {
    try {
      return await this.page.waitForFunction(is, { polling: 50 }, ...given);
    } catch (error) {
      const text = await this.page.evaluate(() => document.body.innerText);
      throw new Error(`It is never so: ${is}\n${this.wrong.join('\n')}\n${text}`, { cause: error });
    }
  }

  text(selector) {
    return this.page.$eval(selector, (element) => element.innerText);
  }

  texts(selector) {
    return this.page.$$eval(selector, (elements) => elements.map((element) => element.innerText));
  }

  async press(...keys) {
    for (const key of keys) await this.page.keyboard.press(key);
  }

  /** What has the focus, by its text. */
  focused() {
    return this.page.evaluate(() => document.activeElement.innerText || document.activeElement.getAttribute('aria-label') || document.activeElement.tagName);
  }

  /** Faults that axe finds. */
  async accessible(where) {
    if (!(await this.page.evaluate(() => 'axe' in window))) await this.page.evaluate(axe);
    const found = await this.page.evaluate(async () => {
      const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
      return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary}`).join('\n')}`);
    });
    assert.deepEqual(found, [], where);
  }

  /** Goes; it must not have done anything wrong. */
  async leaves() {
    const violations = await this.page.evaluate(() => window.violations);
    const hacked = await this.page.evaluate(() => 'hacked' in window);
    await this.#context.close();
    assert.deepEqual([...this.wrong, ...violations], []);
    assert.ok(!hacked, 'a name was run');
  }
}
