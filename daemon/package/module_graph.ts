/** Follows the imports of compiled modules, to find the modules and packages that some of the commands need. */
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

export interface ModuleGraph {
  /** Paths of modules, including the entries, relative to the folder that was searched. */
  modules: string[];
  /** Names of npm packages, and names from the `imports` of package.json. */
  packages: string[];
}

/** Matches imports in tsc's output, native addons (`createRequire`), and worker modules (`new URL`). */
const IMPORTED =
  /^(?:import|export)(?: [^'\n]+ from)? '([^'\n]+)';$|\bimport\('([^'\n]+)'\)|\bcreateRequire\(import\.meta\.url\)(?:\.resolve)?\('([^'\n]+)'\)|\bnew URL\(`([^`\n]+)\$\{extname\(/gm;

/**
 * Reads the graph of modules that the `entries` import. `folder` contains the compiled modules, and `entries` are paths
 * below it. Dynamic imports in the module `chooser` are ignored.
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

/** Returns the package name of an import. The import may name a file of the package: `zod/v4` is in `zod`. */
function parsePackageName(name: string): string {
  return /^(@[^/]+\/)?[^/]+/.exec(name)![0];
}
