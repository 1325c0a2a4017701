/**
 * Settings of the kernel that a test changes while it runs. Their earlier values lie in the run's folder meanwhile, so
 * that `test/jest/run.js` sets them again when the test was killed.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** In the run's folder: a file for each setting that a test has changed, with its earlier value. */
const KEPT = join(process.env.KREPLAY_TEST_RUN ?? tmpdir(), 'sysctl');

/** Sets the values, by names such as `vm/dirty_expire_centisecs`, until `work` is over. */
export async function withSysctl<T>(values: Readonly<Record<string, string>>, work: () => Promise<T>): Promise<T> {
  const changed: string[] = [];
  mkdirSync(KEPT, { recursive: true });
  try {
    for (const [name, value] of Object.entries(values)) {
      // A file of a killed test that ran alone has what the machine had.
      if (!existsSync(keptFile(name))) writeFileSync(keptFile(name), readFileSync(settingFile(name)));
      changed.push(name);
      writeFileSync(settingFile(name), value);
    }
    return await work();
  } finally {
    for (const name of changed) {
      writeFileSync(settingFile(name), readFileSync(keptFile(name)));
      rmSync(keptFile(name));
    }
  }
}

const settingFile = (name: string) => `/proc/sys/${name}`;
const keptFile = (name: string) => join(KEPT, encodeURIComponent(name));
