/** Tests that `/docs` and the guide work in a browser that can reach only the daemon. */
import express from 'express';
import helmet from 'helmet';
import { ENDPOINTS } from '../../../daemon/contract/openapi.ts';
import { close, listen } from '../../../daemon/server/server.ts';
import { newPage } from '../../page/browser.ts';
import { newFolder } from '../recorded.ts';
import { served } from '../served.ts';

const elsewhere = (requested: readonly string[], url: string) =>
  requested.filter((address) => new URL(address).origin !== url);

test('the page of the API shows every operation, contacts no other host, and violates no policy', async () => {
  const { url } = await served(newFolder());
  const { page, errors, requested } = await newPage();
  await page.goto(`${url}/docs`);
  await page.waitForSelector('.opblock');
  const operations = await page.$$eval('.opblock', (blocks) => blocks.map(({ id }) => id));
  expect(operations.toSorted()).toEqual(
    ENDPOINTS.map(({ tag, operationId }) => `operations-${tag}-${operationId}`).toSorted(),
  );
  const paths = await page.$$eval('[data-path]', (all) => all.map((one) => one.getAttribute('data-path')));
  expect(new Set(paths)).toEqual(new Set(ENDPOINTS.map(({ path }) => path)));
  expect(requested).toContain(`${url}/openapi.json`);
  expect(elsewhere(requested, url)).toEqual([]);
  expect(errors).toEqual([]);
});

test('a page of the guide loads nothing from other sites, and nothing that the policy forbids', async () => {
  const { url } = await served(newFolder());
  const { page, errors, requested } = await newPage();
  await page.goto(`${url}/docs/guide/`, { waitUntil: 'networkidle' });
  expect(await page.getAttribute('h1', 'id')).toBe('kreplay');
  expect(elsewhere(requested, url)).toEqual([]);
  expect(errors).toEqual([]);
});

test('a page that violates this is detected', async () => {
  const app = express().use(helmet({ contentSecurityPolicy: { directives: { 'img-src': '*' } } }));
  app.get('/', (_req, res) => void res.send('<p id="p"></p><script>p.id="q"</script><img src="https://a.example/b">'));
  const [server, url] = await listen(app, { host: '127.0.0.1', port: 0 });
  const { page, errors, requested } = await newPage();
  await page.goto(url, { waitUntil: 'networkidle' }).finally(() => close(server));
  expect(await page.locator('#p').count()).toBe(1);
  expect(elsewhere(requested, url)).toEqual(['https://a.example/b']);
  expect(errors).toContainEqual(expect.stringMatching(/Content Security Policy/));
});
