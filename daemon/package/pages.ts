/** Documentation pages in the package. They have the same paths in its documentation folder as in the source tree. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The package's documentation folder, below `/`. */
export const DOC = 'usr/share/doc/kreplay';

const PAGES = ['README.md', '{agent,bpf,daemon,native,test}/**/*.md'];
const PICTURES = '{agent,bpf,daemon}/**/*.{png,svg}';
const BUILT = /(^|\/)(build|node_modules)(\/|$)/;

/**
 * Files whose location in the package differs from their location in the source tree. Maps the path as written in the
 * pages to the path in the package.
 */
const SHIPPED_PLACES: Readonly<Record<string, string>> = {
  '/path/to/kreplay/daemon/metrics/alerts.yml': `/${DOC}/examples/alerts.yml`,
  '(../metrics/alerts.yml)': '(../../examples/alerts.yml)',
  '(../metrics/grafana_dashboard.json)': '(../../examples/grafana_dashboard.json)',
};

/** Lists the paths of the pages in the source tree. */
export function listPagePaths(project: string): string[] {
  return globSync(PAGES, { cwd: project, exclude: (path) => BUILT.test(path) }).sort();
}

/** Lists the paths of the pages' pictures, which are the same in the source tree and in the package. */
export const listPicturePaths = (project: string): string[] => globSync(PICTURES, { cwd: project }).sort();

/** Returns the text of each page by its path below `DOC`. */
export function readShippedPages(project: string): Map<string, string> {
  return new Map(
    listPagePaths(project).map((path) => [path, toShippedPage(readFileSync(join(project, path), 'utf8'))]),
  );
}

function toShippedPage(text: string): string {
  return Object.entries(SHIPPED_PLACES).reduce((shipped, [place, where]) => shipped.replaceAll(place, where), text);
}
