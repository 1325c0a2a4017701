/** Follows the imports of compiled modules, to find what must be shipped so that some of the commands run. */
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

export interface ModuleGraph {
  /** Paths of modules, the entries included, below the folder that was searched. */
  modules: string[];
  /** Packages, and the names of package.json's `imports`. */
  packages: string[];
}

/** Imports as tsc writes them, addons, and the modules of workers: `new URL(`./worker${extname(...)}`, ...)`. */
const IMPORTED =
  /^(?:import|export)(?: [^'\n]+ from)? '([^'\n]+)';$|\bimport\('([^'\n]+)'\)|\bcreateRequire\(import\.meta\.url\)(?:\.resolve)?\('([^'\n]+)'\)|\bnew URL\(`([^`\n]+)\$\{extname\(/gm;

/**
 * `folder` has the compiled modules, and `entries` are paths below it. Dynamic imports of the module `chooser` are not
 * followed.
 */
export function readModuleGraph(folder: string, entries: readonly string[], chooser?: string): ModuleGraph {
  const modules = new Set<string>();
  const packages = new Set<string>();
  const visit = (module: string) => {
    if (modules.has(module)) return;
    modules.add(module);
    for (const [, from, dynamic, required, worker] of readFileSync(join(folder, module), 'utf8').matchAll(IMPORTED)) {
      if (dynamic && module === chooser) continue;
      const name = from ?? dynamic ?? required ?? `${worker}.js`;
      if (name.startsWith('.')) visit(normalize(join(dirname(module), name)));
      else if (!name.startsWith('node:')) packages.add(parsePackageName(name));
    }
  };
  for (const entry of entries) visit(entry);
  return { modules: [...modules].sort(), packages: [...packages].sort() };
}

/** The package of an import, which may name a module in the package: `zod` for `zod/v4`. */
function parsePackageName(name: string): string {
  return /^(@[^/]+\/)?[^/]+/.exec(name)![0];
}
