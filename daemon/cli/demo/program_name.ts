import { existsSync, realpathSync } from 'node:fs';
import { delimiter, dirname, join, relative, resolve } from 'node:path';

/** Returns the command that starts kreplay in this shell: `kreplay` if it is installed, else the launcher's path. */
export function findProgramName(): string {
  const launcher = resolve(dirname(process.argv[1]!), '../kreplay');
  if (!existsSync(launcher)) return 'kreplay';
  const found = (process.env.PATH ?? '').split(delimiter).map((folder) => join(folder, 'kreplay'));
  const isInstalled = found.some((path) => existsSync(path) && realpathSync(path) === realpathSync(launcher));
  return isInstalled ? 'kreplay' : relative(process.cwd(), launcher);
}
