/**
 * `node daemon/package/guide.ts FOLDER`: converts the documentation pages to HTML. The daemon serves them, so that
 * users can read them without internet access. Each page keeps its path in the source tree, so links between pages work
 * unchanged; README.md becomes the index.
 */
import { copyFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { Marked } from 'marked';
import { gfmHeadingId } from 'marked-gfm-heading-id';
import { listPagePaths, listPicturePaths } from './pages.ts';

const INDEX = 'README.md';
/** Files that are not pages but to which pages link. */
const LINKED = 'daemon/metrics/{alerts.yml,grafana_dashboard.json}';
const STYLE_SHEET = 'guide.css';

const STYLE = `:root { color-scheme: light dark }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 54rem; margin: 0 auto; padding: 1rem }
nav { border-bottom: 1px solid; margin-bottom: 1.5rem; padding-bottom: .5rem }
nav a { margin-right: 1rem }
pre { overflow-x: auto; padding: .75rem; background: color-mix(in srgb, currentColor 8%, transparent) }
code { font: .875em ui-monospace, monospace }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { border: 1px solid color-mix(in srgb, currentColor 30%, transparent); padding: .25rem .5rem; text-align: left }
img { max-width: 100% }
`;

/** Returns the path of a page's HTML file in the guide's folder. */
const toHtmlPath = (page: string) => (page === INDEX ? 'index.html' : page.replace(/\.md$/, '.html'));

function linkFrom(page: string, href: string): string {
  const [file = '', anchor] = href.split('#');
  if (/^\w+:/.test(href) || !file.endsWith('.md')) return href;
  const target = relative('.', resolve(dirname(page), file));
  return relative(dirname(page), toHtmlPath(target)) + (anchor === undefined ? '' : `#${anchor}`);
}

/** Converts a page's Markdown text to HTML; `page` is its path in the source tree. */
export function buildGuidePage(page: string, text: string): string {
  const toRoot = '../'.repeat(page.split('/').length - 1);
  const marked = new Marked(gfmHeadingId(), {
    walkTokens(token) {
      if (token.type === 'link') token.href = linkFrom(page, token.href);
    },
  });
  const title = /^# (.+)$/m.exec(text)?.[1]?.replaceAll('`', '') ?? page;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title}</title>
<link rel="stylesheet" href="${toRoot}${STYLE_SHEET}">
</head>
<body>
<nav><a href="${toRoot}index.html">kreplay</a><a href="${toRoot}daemon/docs/query.html">Query</a><a href="${toRoot}daemon/docs/replay.html">Replay</a><a href="${toRoot}daemon/docs/operate.html">Operate</a><a href="${toRoot}daemon/docs/troubleshooting.html">Troubleshooting</a></nav>
<main>
${marked.parse(text, { async: false })}</main>
</body>
</html>
`;
}

export function writeGuide(project: string, folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  const preparePath = (path: string) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    return join(folder, path);
  };
  for (const page of listPagePaths(project))
    writeFileSync(preparePath(toHtmlPath(page)), buildGuidePage(page, readFileSync(join(project, page), 'utf8')));
  for (const file of [...listPicturePaths(project), ...globSync(LINKED, { cwd: project })])
    copyFileSync(join(project, file), preparePath(file));
  writeFileSync(preparePath(STYLE_SHEET), STYLE);
}

if (import.meta.main) writeGuide(join(import.meta.dirname, '../..'), process.argv[2]!);
