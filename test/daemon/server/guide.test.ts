/** Tests the pages as the daemon serves them, by following each link as a reader would. */
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { buildGuidePage } from '../../../daemon/package/guide.ts';
import { newFolder } from '../recorded.ts';
import { type Served, served } from '../served.ts';

const GUIDE = '/docs/guide/';

const addressesIn = (html: string) => [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address!);

/** Follows every link below the guide, and returns the answers by path, and the links that lead to nothing. */
async function follow({ get }: Served): Promise<{ pages: Map<string, string>; broken: string[] }> {
  const pages = new Map<string, string>();
  const links: { from: string; path: string; anchor: string }[] = [{ from: '', path: GUIDE, anchor: '' }];
  for (const { path } of links) {
    if (pages.has(path)) continue;
    const { status, text, headers } = await get(path);
    pages.set(path, status === 200 ? text : '');
    if (!headers['content-type']?.startsWith('text/html')) continue;
    for (const address of addressesIn(text)) {
      const url = new URL(address, `http://here${path}`);
      if (url.origin === 'http://here') links.push({ from: path, path: url.pathname, anchor: url.hash.slice(1) });
    }
  }
  const isBroken = ({ path, anchor }: { path: string; anchor: string }) =>
    !pages.get(path) || (anchor !== '' && !pages.get(path)!.includes(`id="${decodeURIComponent(anchor)}"`));
  return { pages, broken: links.filter(isBroken).map(({ from, path, anchor }) => `${from}: ${path}#${anchor}`) };
}

test('every page of the tree is reached from the first one, and no link is broken', async () => {
  const { pages, broken } = await follow(await served(newFolder()));
  expect(broken).toEqual([]);
  const root = join(import.meta.dirname, '../../..');
  const inTree = globSync('**/*.md', { cwd: root, exclude: (path) => /(^|\/)(build|node_modules)$/.test(path) });
  expect(inTree.length).toBeGreaterThan(20);
  const expected = inTree
    .filter((path) => !/^(CHANGELOG|README)\.md$/.test(path))
    .map((path) => GUIDE + path.replace(/\.md$/, '.html'));
  expect([...pages.keys()]).toEqual(expect.arrayContaining(expected));
  expect(pages.get(GUIDE)).toContain('<table>');
});

test.each([
  ['/docs/guide', 'guide/', GUIDE],
  ['/docs/', '../docs', '/docs'],
])('%s leads to the page, also below a path of a proxy', async (path, location, page) => {
  const app = await served(newFolder());
  expect(await app.get(path)).toMatchObject({ status: 301, headers: { location } });
  expect(new URL(location, `http://here/kreplay${path}`).pathname).toBe(`/kreplay${page}`);
});

test.each([
  ...['../../package.json', '..%2f..%2fpackage.json', '%2e%2e/%2e%2e/package.json', '..\\..\\package.json'],
  ...['.git/config', 'none.html', '%00', 'daemon/docs'],
])('%s is no page of the guide', async (path) => {
  const { status, text } = await (await served(newFolder())).get(GUIDE + path);
  expect([301, 400, 403, 404]).toContain(status);
  expect(text).not.toContain('"dependencies"');
});

test('links between pages keep their way, and others stay as they are', () => {
  const text =
    '# A\n[a](../../README.md#b) [c](query.md) [d](../../agent/README.md) [e](https://example.org/x.md) [f](#g)';
  expect(addressesIn(buildGuidePage('daemon/docs/api.md', text)).slice(-5)).toEqual([
    ...['../../index.html#b', 'query.html', '../../agent/README.html', 'https://example.org/x.md', '#g'],
  ]);
});
