/** The pages as the package ships them: below its folder of documents, each under its path in the tree. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The package's folder of documents, below `/`. */
export const DOC = 'usr/share/doc/kreplay';

const PAGES = ['README.md', '{agent,bpf,daemon,native,test}/**/*.md'];
const PICTURES = '{agent,bpf,daemon}/**/*.{png,svg}';
const BUILT = /(^|\/)(build|node_modules)(\/|$)/;

/** Files that the package has at another place than the tree: as the pages name them, and their path there. */
const SHIPPED_PLACES: Readonly<Record<string, string>> = {
  '/path/to/kreplay/daemon/metrics/alerts.yml': `/${DOC}/examples/alerts.yml`,
  '(../metrics/alerts.yml)': '(../../examples/alerts.yml)',
  '(../metrics/grafana_dashboard.json)': '(../../examples/grafana_dashboard.json)',
};

/** The pages' paths in the tree. */
export function listPagePaths(project: string): string[] {
  return globSync(PAGES, { cwd: project, exclude: (path) => BUILT.test(path) }).sort();
}

/** Paths in the tree of the pages' pictures, which are the same in the package. */
export const listPicturePaths = (project: string): string[] => globSync(PICTURES, { cwd: project }).sort();

/** Path below `DOC` -> text. */
export function readShippedPages(project: string): Map<string, string> {
  return new Map(
    listPagePaths(project).map((path) => [path, toShippedPage(readFileSync(join(project, path), 'utf8'))]),
  );
}

function toShippedPage(text: string): string {
  return Object.entries(SHIPPED_PLACES).reduce((shipped, [place, where]) => shipped.replaceAll(place, where), text);
}
