/** Tests which modules a command loads: client commands load no server. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../../..');
const OWN_MODULES_MAX = 60;

/** Prints the address of each loaded module at exit. */
const LISTING = `
import { registerHooks } from 'node:module';
import { writeSync } from 'node:fs';
const urls = new Set();
registerHooks({ load(url, context, next) { urls.add(url); return next(url, context); } });
process.on('exit', () => {
  // Addons are shared objects and no modules.
  for (const path of process.report.getReport().sharedObjects) urls.add('file://' + path);
  writeSync(3, [...urls].join('\\n'));
});
`;

interface Loaded {
  own: string[];
  packages: string[];
  addons: string[];
}

function loadedBy(...args: string[]): Loaded {
  const listing = `data:text/javascript,${encodeURIComponent(LISTING)}`;
  const child = ['--disable-warning=ExperimentalWarning', '--import', listing, join(ROOT, 'kreplay.ts'), ...args];
  const output = execFileSync('sh', ['-c', 'exec "$0" "$@" 3>&1 > /dev/null', process.execPath, ...child], {
    encoding: 'utf8',
  });
  const files = output.split('\n').filter((url) => url.startsWith(`file://${ROOT}/`));
  const packages = files.flatMap((url) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? []);
  return {
    own: files.filter((url) => url.endsWith('.ts') && !url.includes('/node_modules/')),
    packages: [...new Set(packages)].sort(),
    addons: files.filter((url) => url.endsWith('.node')),
  };
}

const CLIENTS = [
  'events',
  'tail',
  'transactions',
  'show',
  'services',
  'stats',
  'pin',
  'unpin',
  'whatif',
  'diff',
  'token',
];

test.each(CLIENTS)('kreplay %s loads commander and zod, but no server and no database', (command) => {
  const { own, packages, addons } = loadedBy(command, '--help');
  expect(packages.filter((name) => !['commander', 'eventsource-parser', 'zod'].includes(name))).toEqual([]);
  expect(addons).toEqual([]);
  expect(own).toContain(`file://${ROOT}/kreplay.ts`);
  expect(own.length).toBeLessThanOrEqual(OWN_MODULES_MAX);
});

test('kreplay fleet loads the client of ClickHouse, and no other command does', () => {
  const clickhouse = (command: string) =>
    loadedBy(command, '--help').own.filter((url) => url.startsWith(`file://${ROOT}/agent/clickhouse/`));
  for (const command of ['agent', 'daemon', 'up', 'events'])
    expect([command, clickhouse(command)]).toEqual([command, []]);
  expect(clickhouse('fleet').length).toBeGreaterThan(0);
  const { packages, addons } = loadedBy('fleet', '--help');
  // `retain` reads the configuration.
  expect([packages, addons]).toEqual([['commander', 'eslint-visitor-keys', 'toml-eslint-parser', 'zod'], []]);
});

test('kreplay exec loads only what it needs', () => {
  const { own, packages, addons } = loadedBy('exec', '--help');
  expect([packages, addons]).toEqual([['commander'], []]);
  expect(own.length).toBeLessThanOrEqual(10);
});

test('modules that a daemon loads are detected', () => {
  const { own, packages, addons } = loadedBy('daemon', '--help');
  expect(packages).toEqual(expect.arrayContaining(['better-sqlite3', 'express']));
  expect(addons.length).toBeGreaterThan(0);
  expect(own.length).toBeGreaterThan(OWN_MODULES_MAX);
});
