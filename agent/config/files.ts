/** Finds and reads the configuration files. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../process/errors.ts';

export const CONFIG_DEFAULT = '/etc/kreplay/kreplay.toml';

const EXTENSION = '.toml';

export interface ConfigFile {
  path: string;
  text: string;
}

/**
 * Reads `X.toml`, then `X.d/*.toml` in the order of their names; later files override earlier ones. A file given by the
 * user must exist; the default file may be missing.
 */
export function readConfigFiles(named: string | undefined): ConfigFile[] {
  const path = named ?? CONFIG_DEFAULT;
  const file = read(path, named === undefined);
  const folder = path.endsWith(EXTENSION) ? `${path.slice(0, -EXTENSION.length)}.d` : undefined;
  const more = folder === undefined ? [] : listTomlFiles(folder).map((name) => read(join(folder, name), true));
  return [file, ...more].filter((one) => one !== undefined);
}

function read(path: string, mayBeMissing: boolean): ConfigFile | undefined {
  try {
    return { path, text: readFileSync(path, 'utf8') };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' && mayBeMissing) return undefined;
    throw new ConfigError(`the configuration ${path} cannot be read: ${message}`);
  }
}

function listTomlFiles(folder: string): string[] {
  try {
    return readdirSync(folder)
      .filter((name) => name.endsWith(EXTENSION) && !name.startsWith('.'))
      .sort();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return [];
    throw new ConfigError(`the configuration folder ${folder} cannot be read: ${message}`);
  }
}
