/** Which file may import which, and that no file imports itself through others. */
import { dirname } from 'node:path';
import { ANYTHING, FILES, importsOf, isIn, read, SCRIPTS, TYPESCRIPT } from './source_tree.ts';

/**
 * Maps a folder or file to what its files may import: folders and files of this tree, packages, all of `node:`. The
 * longest match counts.
 */
const WALLS: Record<string, readonly string[]> = {
  'kreplay.ts': ['agent', 'daemon', 'node:'],
  'bpf/schema': ['bpf/schema'],
  'bpf/schema/api.ts': ['bpf/schema', 'zod'],
  'bpf/schema/native_columns.ts': ['bpf/schema', '#columns', 'node:'],
  'bpf/schema/native_text_rows.ts': ['bpf/schema', '#columns', 'node:'],
  'bpf/schema/native_shipment.ts': ['bpf/schema', '#columns', 'node:'],
  'bpf/schema/native_sums.ts': ['bpf/schema', '#columns', 'node:'],
  'bpf/schema/generate.ts': ['bpf/schema', 'node:'],
  native: ['native', 'node:'],
  agent: ['agent', 'daemon/base', 'bpf/schema', 'libbpf-ts', 'commander', 'pino', 'zod', 'node:'],
  'agent/config': [
    'agent/config',
    'agent/process',
    'daemon/base',
    'commander',
    'pino',
    'toml-eslint-parser',
    'zod',
    'node:',
  ],
  'agent/process': ['agent/process', 'node:'],
  'agent/process/service_manager.ts': ['#system', 'node:'],
  'agent/output': ['agent/output', 'agent/config', 'daemon/base', 'commander', 'pino', 'node:'],
  'agent/attribution': ['agent/attribution', 'bpf/schema', 'node:'],
  'agent/mark': ['agent/mark', 'agent/attribution/marker.ts', 'node:'],
  'agent/recording': ['agent/recording', 'agent/process', 'daemon/base', 'bpf/schema', 'better-sqlite3', 'node:'],
  'agent/recording/pin_socket': ['agent/recording', 'zod', 'node:'],
  'agent/recording/pin_socket/pin_socket.ts': ['agent/recording', '#system', 'node:'],
  'agent/clickhouse': ['agent/clickhouse', 'agent/process', 'daemon/base', 'bpf/schema', 'node:'],
  daemon: [
    ...['daemon', 'bpf/schema', 'agent/config', 'agent/recording', 'agent/output', 'agent/process'],
    ...['@prometheus-io/client', 'commander', 'eventsource-parser', 'express', 'helmet', 'pino', 'zod', 'zod-openapi'],
    'node:',
  ],
  'daemon/store/fleet': ['daemon', 'bpf/schema', 'agent/recording', 'agent/clickhouse', 'agent/process', 'node:'],
  'daemon/cli/program.ts': ['agent', 'daemon', 'commander', 'node:'],
  'daemon/cli/up.ts': ['agent', 'commander', 'node:'],
  'daemon/cli/player': [
    ...['daemon', 'bpf/schema', 'agent/config', 'agent/recording', 'agent/output'],
    ...['commander', 'eventsource-parser', 'string-width', 'zod', 'node:'],
  ],
  // The ground floor of all rooms, also of those that run in browsers.
  'daemon/base': ['daemon/base'],
  // The daemon and its page share these computations, so the files also run in browsers.
  'daemon/model': ['daemon/model', 'daemon/base'],
  // Runs in browsers: nothing of node:, no server code.
  'daemon/page': [
    ...['daemon/page', 'daemon/base', 'daemon/model', 'daemon/contract'],
    ...['bpf/schema/losses.ts', 'bpf/schema/owner.ts', 'preact'],
  ],
  'daemon/package': [
    'daemon/package',
    'agent/config',
    'daemon/cli/program.ts',
    '@cyclonedx/cyclonedx-library',
    '@swc/core',
    'commander',
    'esbuild',
    'marked',
    'marked-gfm-heading-id',
    'playwright-core',
    'string-width',
    'node:',
  ],
  'daemon/export': ['daemon', 'bpf/schema', 'agent/recording', 'agent/process', 'better-sqlite3', 'node:'],
  'daemon/export/sql/native_tables.ts': ['bpf/schema', 'better-sqlite3', '#tables', 'node:'],
  'daemon/run': [
    'daemon',
    'bpf/schema',
    'agent/config',
    'agent/recording',
    'agent/output',
    'agent/process',
    'zod',
    'node:',
  ],
  'daemon/run/format': ['daemon/run/format', 'node:'],
  'daemon/watch': [
    ...['daemon', 'bpf/schema', 'agent/config', 'agent/recording', 'agent/output', 'agent/process'],
    ...['better-sqlite3', 'commander', 'express', 'pino', 'zod', 'node:'],
  ],
  'daemon/replay/persistence': ['daemon', 'agent/process', 'better-sqlite3', 'zod', 'node:'],
  'daemon/http/socket_progress.ts': ['#system', 'node:'],
  'daemon/replay/clock/clock.ts': [],
  'daemon/replay/clock/player.ts': ['daemon/replay/clock', '#clock', 'node:'],
  'daemon/thread_schedule.ts': ['#system', 'node:'],
  test: [ANYTHING],
  'test/jest': [
    'test/jest',
    'jest.config.js',
    '@jest/expect',
    '@jest/test-result',
    'jest-circus',
    'jest-message-util',
    'node:',
    'test/page/chromium.ts',
    'test/page/proxies.ts',
  ],
  // It imports the suite.
  'test/jest/suite.js': [ANYTHING],
  'jest.config.js': ['node:'],
};

const CORE = ['store', 'sums', 'contract', 'coverage', 'tail', 'replay', 'export', 'run'].map(
  (room) => `daemon/${room}`,
);

/** Restrictions within the walls: files in `from` may not import files in `to`. */
const CLOSED: readonly (readonly [from: string, to: string])[] = [
  // The core of the daemon depends neither on HTTP nor on the command line.
  ...CORE.flatMap((room) => ['daemon/http', 'daemon/cli', 'daemon/server'].map((other) => [room, other] as const)),
  ['daemon/http', 'daemon/cli'],
  ['daemon/http', 'daemon/server'],
  ['daemon/server', 'daemon/cli'],
  ['daemon/store', 'daemon/contract'],
  ['daemon/store', 'daemon/coverage'],
  ['daemon/store/blocks', 'daemon/store/embedded'],
  ['daemon/sums', 'daemon/store/embedded'],
  ['daemon/http', 'daemon/store/embedded'],
  ['daemon/contract', 'daemon/store/embedded'],
  ['daemon/coverage', 'daemon/store/embedded'],
  ['daemon/tail', 'daemon/store/embedded'],
  ['daemon/store', 'daemon/replay'],
  ['daemon/store', 'daemon/tail'],
  ['daemon/contract', 'daemon/replay'],
  ['daemon/coverage', 'daemon/replay'],
  ['daemon/tail', 'daemon/replay'],
  ['daemon/run/plan', 'daemon/run/report'],
  ['daemon/replay', 'daemon/run'],
  ['agent/attribution', 'agent/capture'],
  ['agent/recording/read', 'agent/recording/write'],
  ['agent/recording/read', 'agent/recording/retain'],
  ['agent/recording/retain', 'agent/recording/write'],
  // api.ts would bring zod into the agent's second thread: 14 MB.
  ['agent', 'bpf/schema/api.ts'],
];

function allowedFor(file: string): readonly string[] | undefined {
  const places = Object.keys(WALLS).filter((place) => isIn(file, place));
  const longest = places.sort((a, b) => b.length - a.length)[0];
  return longest === undefined ? undefined : WALLS[longest];
}

/** A path from each name back to itself, for the names that have one. */
function cyclesIn(arrows: ReadonlyMap<string, readonly string[]>): string[] {
  const settled = new Set<string>();
  const found: string[] = [];
  function walk(name: string, way: readonly string[]): void {
    if (way.includes(name)) found.push([...way.slice(way.indexOf(name)), name].join(' > '));
    if (settled.has(name) || way.includes(name)) return;
    for (const next of arrows.get(name) ?? []) walk(next, [...way, name]);
    settled.add(name);
  }
  for (const name of arrows.keys()) walk(name, []);
  return found;
}

describe('walls', () => {
  test('a file imports only what its room may', () => {
    const wrong = SCRIPTS.flatMap((file) =>
      importsOf(file)
        .filter((imported) => !allowedFor(file)?.some((place) => isIn(imported, place)))
        .map((imported) => `${file} imports ${imported}`),
    );
    expect(wrong).toEqual([]);
  });

  test('imports that are forbidden within a room do not occur', () => {
    const wrong = SCRIPTS.flatMap((file) =>
      CLOSED.filter(([from]) => isIn(file, from)).flatMap(([, to]) =>
        importsOf(file)
          .filter((imported) => isIn(imported, to))
          .map((imported) => `${file} imports ${imported}`),
      ),
    );
    expect(wrong).toEqual([]);
  });

  test('only the front door imports both rooms', () => {
    const both = SCRIPTS.filter((file) => {
      const imported = importsOf(file);
      const isOpen = (other: string) =>
        ['agent/config', 'agent/recording', 'agent/output', 'agent/process', 'agent/clickhouse'].some((room) =>
          isIn(other, room),
        );
      const fromAgent = imported.some((other) => isIn(other, 'agent') && !isOpen(other));
      const fromDaemon = imported.some((other) => isIn(other, 'daemon') && !isIn(other, 'daemon/base'));
      return !isIn(file, 'test') && fromAgent && fromDaemon;
    });
    expect(both).toEqual(['daemon/cli/program.ts']);
  });

  test('no file and no folder imports itself through others', () => {
    const sources = TYPESCRIPT.filter((file) => !isIn(file, 'test'));
    const imported = new Map(sources.map((file) => [file, importsOf(file).filter((other) => sources.includes(other))]));
    expect(cyclesIn(imported)).toEqual([]);
    const folders = new Map<string, string[]>();
    for (const [file, others] of imported) {
      const folder = dirname(file);
      const outside = others.map((other) => dirname(other)).filter((other) => other !== folder);
      folders.set(folder, [...(folders.get(folder) ?? []), ...outside]);
    }
    expect(cyclesIn(folders)).toEqual([]);
  });

  test('the folders of the runner are in its README, and include only what is below them there', () => {
    const rows = [...read('native/runner/README.md').matchAll(/^\| `(\w+)` \|/gm)].map(([, folder]) => folder!);
    const sources = FILES.filter((file) => /^native\/runner\/.*\.[ch]$/.test(file));
    const folderOf = (file: string) => file.split('/').at(-2)!;
    expect([...new Set(sources.map(folderOf))].sort()).toEqual(rows.toSorted());
    const wrong = sources.flatMap((file) =>
      [...read(file).matchAll(/^#include "(.*)"/gm)]
        .filter(([, included]) => rows.indexOf(dirname(included!)) < rows.indexOf(folderOf(file)))
        .map(([include]) => `${file}: ${include}`),
    );
    expect(wrong).toEqual([]);
  });

  test('every wall protects something', () => {
    const files = [...SCRIPTS, ...SCRIPTS.flatMap(importsOf)];
    const named = new Set([...Object.keys(WALLS), ...Object.values(WALLS).flat(), ...CLOSED.flat()]);
    expect([...named].filter((place) => !files.some((file) => isIn(file, place)))).toEqual([]);
  });

  test('imports are seen in statements, calls and types, and the nearest wall counts', () => {
    expect(importsOf('kreplay.ts')).toContain('daemon/cli/program.ts');
    expect(importsOf('daemon/cli/up.ts')).toEqual(expect.arrayContaining(['agent/command.ts', 'node:child_process']));
    expect(importsOf('bpf/schema/docs.ts')).toContain('bpf/schema/kinds.ts');
    expect(allowedFor('agent/recording/write/writer.ts')).not.toContain('agent');
    expect(isIn('daemonic/x.ts', 'daemon')).toBe(false);
    const round = { a: ['b'], b: ['c', 'd'], c: ['d'], d: ['b'], e: ['a'] };
    expect(cyclesIn(new Map(Object.entries(round)))).toEqual(['b > c > d > b']);
  });
});
