/** Follows the imports of compiled modules, to find out what must be shipped for a selection of the commands. */
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

export interface ModuleGraph {
  /** Paths of modules, including the entries, relative to the folder that was searched. */
  modules: string[];
  /** Names of packages, and names in the `imports` of package.json. */
  packages: string[];
}

/**
 * Matches imports as tsc writes them, addons, and the modules of workers: `new URL(`./worker${extname(...)}`, ...)`.
 */
const IMPORTED =
  /^(?:import|export)(?: [^'\n]+ from)? '([^'\n]+)';$|\bimport\('([^'\n]+)'\)|\bcreateRequire\(import\.meta\.url\)(?:\.resolve)?\('([^'\n]+)'\)|\bnew URL\(`([^`\n]+)\$\{extname\(/gm;

/**
 * `folder` contains the compiled modules, and `entries` are paths below it. Dynamic imports in the module `chooser` are
 * not followed.
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

/** Returns the package of an import. The import may name a module in the package, such as `zod/v4` in `zod`. */
function parsePackageName(name: string): string {
  return /^(@[^/]+\/)?[^/]+/.exec(name)![0];
}
