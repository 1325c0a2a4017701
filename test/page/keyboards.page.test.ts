/** The keys of the page on keyboards that are not American, whose events say another letter than their place. */
import type { Page } from 'playwright-core';
import { exampleRecording } from '../daemon/example_recording.ts';
import { served } from '../daemon/served.ts';
import { newPage } from './browser.ts';

const [ALT, CONTROL, SHIFT] = [1, 2, 8];
const LANES = '/#v=1&view=lanes&transaction=order-1';

async function opened(path: string, ready: string) {
  const { url } = await served(exampleRecording());
  const { page, errors } = await newPage();
  await page.goto(url + path);
  await page.waitForSelector(ready);
  const browser = await page.context().newCDPSession(page);
  const press = async (key: string, code: string, modifiers = 0) => {
    const about = { key, code, modifiers, windowsVirtualKeyCode: key.toUpperCase().charCodeAt(0) };
    await browser.send('Input.dispatchKeyEvent', { type: 'keyDown', text: key, ...about });
    await browser.send('Input.dispatchKeyEvent', { type: 'keyUp', ...about });
  };
  return { page, errors, press };
}

const focused = (page: Page) => page.evaluate('document.activeElement.tagName');

test('on a German keyboard letters and signs do what the help says', async () => {
  const { page, errors, press } = await opened(LANES, '.moving');
  await press('+', 'BracketRight');
  await page.waitForURL(/speed=/);
  await press('-', 'Slash');
  await page.waitForURL((url) => !url.hash.includes('speed='));
  expect(await focused(page)).toBe('BODY');
  await press('z', 'KeyY');
  expect(await page.textContent('[aria-live]')).not.toContain('copied');
  await press('?', 'Minus', SHIFT);
  await page.waitForSelector('dialog[open]');
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog[open]', { state: 'detached' });
  await press('1', 'Digit1');
  await page.waitForSelector('[aria-keyshortcuts="/"]');
  await press('/', 'Digit7', SHIFT);
  expect(await focused(page)).toBe('INPUT');
  expect(errors).toEqual([]);
});

test('AltGr writes signs, and keys of the browser stay its own', async () => {
  const { page, press } = await opened(`${LANES}&event=none`, '.moving');
  await page.keyboard.press('ArrowRight');
  await page.waitForSelector('.detail');
  const selected = () => new URL(page.url()).hash;
  // The sync of the example waits for its request.
  await page.waitForURL(/event=(?!none)/);
  while (!(await page.textContent('.detail'))!.includes('fdatasync')) {
    const before = selected();
    await page.keyboard.press('ArrowRight');
    await page.waitForURL((url) => url.hash !== before);
  }
  const sync = selected();
  await press(']', 'Digit9', CONTROL | ALT);
  await page.waitForURL((url) => url.hash !== sync);
  const request = selected();
  await press('+', 'BracketRight', CONTROL);
  await press('v', 'KeyV', ALT);
  await press('v', 'KeyV', CONTROL);
  await press('[', 'Digit8', CONTROL | ALT);
  await page.waitForURL((url) => url.hash === sync);
  expect(request).not.toMatch(/speed|table/);
});

test('on a French keyboard letters count by name, and W A S D by their place too', async () => {
  const { page, press } = await opened(LANES, '.moving');
  const zoom = () => /zoom_from=\d+&zoom_to=\d+|$/.exec(page.url())![0];
  const changes = async (key: string, code: string) => {
    const before = zoom();
    await press(key, code);
    await page.waitForURL((url) => !url.hash.includes(before) || (before === '' && /zoom_from/.test(url.hash)));
    return zoom();
  };
  const byName = await changes('w', 'KeyZ');
  const left = await changes('a', 'KeyQ');
  await press('f', 'KeyF');
  await page.waitForURL((url) => !url.hash.includes('zoom_from'));
  expect(await changes('z', 'KeyW')).toBe(byName);
  expect(await changes('q', 'KeyA')).toBe(left);
  await press('é', 'Digit2');
  await page.waitForSelector('nav button[aria-current=page]:text-is("Live")');
});
