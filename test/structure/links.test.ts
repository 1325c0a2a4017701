/** Every relative link of a page leads to a file of the tree, and with an anchor to a heading. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { brokenLinks } from './page_links.ts';
import { FILES, ROOT, read } from './source_tree.ts';

const PAGES = ['README.md', 'CHANGELOG.md', ...FILES.filter((file) => file.endsWith('.md'))];

test('every link leads to a file or a heading of the tree', () => {
  const pages = new Map(PAGES.map((page) => [page, read(page)]));
  expect(brokenLinks(pages, (path) => existsSync(join(ROOT, path)))).toEqual([]);
});

describe('a broken link is found', () => {
  const broken = (text: string) =>
    brokenLinks(
      new Map([
        ['docs/page.md', text],
        ['docs/other.md', '# A `b`: c\n'],
      ]),
      (path) => path === 'docs/picture.svg',
    );

  test.each([
    ['a page', '[x](none.md)', ['docs/page.md: none.md']],
    ['a file in another folder', '[x](../picture.svg)', ['docs/page.md: ../picture.svg']],
    ['a heading of another page', '[x](other.md#b)', ['docs/page.md: other.md#b']],
    ['a heading of the same page', '# Here\n[x](#there)', ['docs/page.md: #there']],
    ['nothing is wrong', '# Here\n[x](#here) [x](other.md#a-b-c) [x](picture.svg) [x](https://example.org/)', []],
    ['code has no links', '```\n[x](none.md)\n```\n`[x](none.md)`', []],
  ])('%s', (_, text, found) => {
    expect(broken(text)).toEqual(found);
  });
});
