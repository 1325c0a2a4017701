/**
 * The shape of the source tree, executable: who may import whom, what is not written here, how long a file gets, and
 * that everything which belongs to an event type or an error code is there. Sources are parsed, not run.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { parseSync } from '@swc/core';
import { EVENTS } from '../bpf/schema/index.ts';
import { freshReadme } from '../daemon/readme.ts';

const ROOT = join(import.meta.dirname, '..');
const ROOMS = ['agent', 'bpf', 'daemon', 'native', 'test'];
const BUILT = /(^|\/)(build|node_modules)\//;

function read(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8');
}

function filesIn(room: string): string[] {
  return readdirSync(join(ROOT, room), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length + 1))
    .filter((file) => !BUILT.test(file));
}

const FILES = ['kreplay.ts', 'jest.config.js', ...ROOMS.flatMap(filesIn)].sort();
const SCRIPTS = FILES.filter((file) => /\.[jt]s$/.test(file));
const TYPESCRIPT = FILES.filter((file) => file.endsWith('.ts'));
const CODE = FILES.filter((file) => /\.(ts|js|c|h|cc|sh)$/.test(file));

interface Node {
  type: string;
  span: { start: number; end: number };
  [key: string]: unknown;
}

interface Source {
  nodes: Node[];
  lines: string[];
  /** From 1. */
  lineOf(offset: number): number;
}

/** Spans are bytes from a base of the parser's choice: the semicolon in front tells which. */
function parse(file: string): Source {
  const text = read(file);
  const bytes = Buffer.from(`;${text}`);
  const module = parseSync(`;${text}`, { syntax: 'typescript', target: 'es2024' }) as unknown as { body: Node[] };
  const base = module.body[0]!.span.start;
  const lineOf = (offset: number) =>
    bytes
      .subarray(0, offset - base)
      .toString('latin1')
      .split('\n').length;
  return { nodes: [...nodesIn(module.body)], lines: text.split('\n'), lineOf };
}

function* nodesIn(value: unknown): Generator<Node> {
  if (Array.isArray(value)) for (const item of value) yield* nodesIn(item);
  else if (typeof value === 'object' && value !== null) {
    if ('type' in value && typeof value.type === 'string') yield value as Node;
    for (const child of Object.values(value)) yield* nodesIn(child);
  }
}

const PARSED = new Map(SCRIPTS.map((file) => [file, parse(file)]));

/** `file:line` of the nodes that `wanted` picks. */
function places(files: readonly string[], wanted: (node: Node, source: Source) => boolean): string[] {
  return files.flatMap((file) => {
    const source = PARSED.get(file)!;
    const picked = source.nodes.filter((node) => wanted(node, source));
    return picked.map(({ span }) => `${file}:${source.lineOf(span.start)}`);
  });
}

/** What a file imports: a file of this tree by its path, a package or `node:` module by its name. */
function importsOf(file: string): string[] {
  const texts = PARSED.get(file)!.nodes.flatMap((node) => {
    if (/^(Import|Export(All|Named))Declaration$/.test(node.type)) return node.source ? [node.source as Node] : [];
    if (node.type === 'TsImportType') return [node.argument as Node];
    const called = node.type === 'CallExpression' ? (node.callee as Node) : undefined;
    if (called?.type !== 'Import' && called?.value !== 'require') return [];
    return [(node.arguments as { expression: Node }[])[0]!.expression];
  });
  return texts.map(({ value }) => {
    const name = String(value ?? 'what is not known before it runs');
    return name.startsWith('.') ? normalize(join(dirname(file), name)) : name;
  });
}

const ANYTHING = '*';

/**
 * Folder or file -> what its files may import: folders and files of this tree, packages, all of `node:`. The longest
 * match counts.
 */
const WALLS: Record<string, readonly string[]> = {
  'kreplay.ts': ['agent', 'daemon', 'commander', 'node:'],
  'bpf/schema': ['bpf/schema'],
  'bpf/schema/api.ts': ['bpf/schema', 'zod'],
  'bpf/schema/native_columns.ts': ['bpf/schema', 'node:'],
  'bpf/schema/generate.ts': ['bpf/schema', 'node:'],
  native: ['native', 'node:'],
  agent: ['agent', 'bpf/schema', 'libbpf-ts', 'commander', 'pino', 'zod', 'node:'],
  'agent/config': [
    'agent/config',
    'agent/recording/duration.ts',
    'commander',
    'pino',
    'toml-eslint-parser',
    'zod',
    'node:',
  ],
  'agent/output': ['agent/output', 'agent/config', 'commander', 'pino', 'node:'],
  'agent/package': [
    'agent/package',
    'agent/config',
    'kreplay.ts',
    '@cyclonedx/cyclonedx-library',
    'commander',
    'node:',
  ],
  'agent/attribution': ['agent/attribution', 'bpf/schema', 'node:'],
  'agent/mark': ['agent/mark', 'agent/attribution/marker.ts', 'node:'],
  'agent/recording': ['agent/recording', 'bpf/schema', 'better-sqlite3', 'node:'],
  daemon: [
    ...['daemon', 'bpf/schema', 'agent/config', 'agent/recording', 'agent/output'],
    ...['@prometheus-io/client', 'commander', 'eventsource-parser', 'express', 'helmet', 'pino', 'zod', 'zod-openapi'],
    'node:',
  ],
  'daemon/commands/player': [
    'daemon',
    'bpf/schema',
    'agent/recording',
    'agent/output',
    'eventsource-parser',
    'string-width',
    'zod',
    'node:',
  ],
  'daemon/export': ['daemon', 'bpf/schema', 'agent/recording', 'better-sqlite3', 'node:'],
  'daemon/run': ['daemon', 'bpf/schema', 'agent/recording', 'agent/output', 'zod', 'node:'],
  'daemon/run/format': ['daemon/run/format', 'node:'],
  'daemon/replay/kept': ['daemon', 'better-sqlite3', 'zod', 'node:'],
  'daemon/replay/clock.ts': [],
  test: [ANYTHING],
  'test/closing_line.js': [],
  'jest.config.js': [],
};

/** Beyond the walls: within a room, these may not import those. */
const CLOSED: readonly (readonly [from: string, to: string])[] = [
  ['daemon/store', 'daemon/query'],
  ['daemon/store', 'daemon/replay'],
  ['daemon/store', 'daemon/routes'],
  ['daemon/store', 'daemon/metrics'],
  ['daemon/store', 'daemon/tail'],
  ['daemon/query', 'daemon/replay'],
  ['daemon/query', 'daemon/routes'],
  ['daemon/replay', 'daemon/routes'],
  ['daemon/replay', 'daemon/commands'],
  ['daemon/metrics', 'daemon/routes'],
  ['daemon/tail', 'daemon/replay'],
  ['daemon/tail', 'daemon/routes'],
  ['daemon/routes', 'daemon/commands'],
  ['daemon/run', 'daemon/commands'],
  ['daemon/run', 'daemon/routes'],
  ['daemon/run/plan', 'daemon/run/report'],
  ['daemon/replay', 'daemon/run'],
  ['agent/attribution', 'agent/capture'],
  // It would bring zod into the agent's second thread: 14 MB.
  ['agent', 'bpf/schema/api.ts'],
];

function isIn(file: string, place: string): boolean {
  return place === ANYTHING || file === place || file.startsWith(place.endsWith(':') ? place : `${place}/`);
}

function allowedFor(file: string): readonly string[] | undefined {
  const places = Object.keys(WALLS).filter((place) => isIn(file, place));
  const longest = places.sort((a, b) => b.length - a.length)[0];
  return longest === undefined ? undefined : WALLS[longest];
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

  test('closed doors inside a room are closed', () => {
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
        ['agent/config', 'agent/recording', 'agent/output'].some((room) => isIn(other, room));
      const fromAgent = imported.some((other) => isIn(other, 'agent') && !isOpen(other));
      return !isIn(file, 'test') && fromAgent && imported.some((other) => isIn(other, 'daemon'));
    });
    expect(both).toEqual(['kreplay.ts']);
  });

  test('every wall stands before something', () => {
    const files = [...SCRIPTS, ...SCRIPTS.flatMap(importsOf)];
    const named = new Set([...Object.keys(WALLS), ...Object.values(WALLS).flat(), ...CLOSED.flat()]);
    expect([...named].filter((place) => !files.some((file) => isIn(file, place)))).toEqual([]);
  });

  test('imports are seen in statements, calls and types, and the nearest wall counts', () => {
    expect(importsOf('kreplay.ts')).toContain('daemon/command.ts');
    expect(importsOf('agent/up.ts')).toEqual(expect.arrayContaining(['agent/command.ts', 'node:child_process']));
    expect(importsOf('bpf/schema/docs.ts')).toContain('bpf/schema/kinds.ts');
    expect(allowedFor('agent/recording/writer.ts')).not.toContain('agent');
    expect(isIn('daemonic/x.ts', 'daemon')).toBe(false);
  });
});

describe('names', () => {
  test('no file and no folder is named for nothing', () => {
    const nothing = /^(utils?|helpers?|common|tools?|misc|shared|lib)$/;
    const named = FILES.flatMap((file) => file.split('/').map((part) => ({ file, name: part.split('.')[0]! })));
    const wrong = named.filter(({ name }) => nothing.test(name)).map(({ file }) => file);
    expect(wrong).toEqual(['bpf/schema/common.ts']);
  });

  test('files and folders are named in snake_case', () => {
    const paths = FILES.filter((file) => CODE.includes(file)).flatMap((file) => file.split('/'));
    expect(paths.filter((part) => !/^[a-z0-9_]+(\.[a-z0-9_]+)*$/.test(part))).toEqual([]);
  });

  test('the top level holds what the project is made of, and nothing else', () => {
    const allowed = new Set([
      ...['package.json', 'package-lock.json', 'tsconfig.json', 'jest.config.js', 'biome.json', '.clang-format'],
      ...['.gitignore', '.ci', 'agent', 'daemon', 'native', 'bpf', 'test', 'Makefile'],
      ...['README.md', 'LICENSE', 'CHANGELOG.md', 'kreplay.ts'],
    ]);
    const tracked = trackedFiles().map((file) => file.split('/')[0]!);
    expect(tracked.filter((name) => !allowed.has(name))).toEqual([]);
  });
});

/** Those that git knows; in a tree without it, those that are not built. */
function trackedFiles(): string[] {
  if (!existsSync(join(ROOT, '.git'))) return FILES;
  // The tests run as root, on a tree that may be someone else's.
  const list = execFileSync('git', ['-c', 'safe.directory=*', 'ls-files', '-z'], { cwd: ROOT, encoding: 'utf8' });
  return list.split('\0').filter((file) => file !== '');
}

describe('language', () => {
  const kind = (type: string) => (node: Node) => node.type === type;

  test('no enum, no namespace', () => {
    expect(places(TYPESCRIPT, kind('TsEnumDeclaration'))).toEqual([]);
    expect(places(TYPESCRIPT, (node) => node.type === 'TsModuleDeclaration' && node.declare !== true)).toEqual([]);
  });

  test('no any, but in a test that says why', () => {
    const unexplained = (node: Node, { lines, lineOf }: Source) =>
      kind('TsKeywordType')(node) &&
      node.kind === 'any' &&
      !lines[lineOf(node.span.start) - 2]!.includes('noExplicitAny: ');
    const [tests, others] = [true, false].map((inTest) => TYPESCRIPT.filter((file) => isIn(file, 'test') === inTest));
    expect(places(tests!, unexplained)).toEqual([]);
    expect(places(others!, (node) => kind('TsKeywordType')(node) && node.kind === 'any')).toEqual([]);
  });

  test('no default export, but where a tool asks for one', () => {
    const found = places(SCRIPTS, (node) => /^ExportDefault/.test(node.type)).map((place) => place.split(':')[0]);
    expect(found).toEqual(['jest.config.js', 'test/closing_line.js']);
  });

  test('no test runs alone, and none is skipped without a condition', () => {
    const marked = (node: Node, mark: RegExp) =>
      kind('MemberExpression')(node) &&
      mark.test(String((node.property as Node).value)) &&
      /^(test|it|describe)$/.test(String((node.object as Node).value));
    expect(places(SCRIPTS, (node) => marked(node, /^only$/))).toEqual([]);
    const unconditional = (node: Node, { nodes }: Source) =>
      marked(node, /^(skip|todo)$/) &&
      !nodes.some((other) => kind('ConditionalExpression')(other) && other.alternate === node);
    expect(places(SCRIPTS, unconditional)).toEqual([]);
  });

  test('nothing is left to do', () => {
    const left = /\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b/;
    const files = [...FILES, 'Makefile', '.ci/run', 'README.md', 'CHANGELOG.md'];
    const found = files.flatMap((file) =>
      read(file)
        .split('\n')
        .flatMap((line, i) => (left.test(line) ? [`${file}:${i + 1}`] : [])),
    );
    expect(found).toEqual([]);
  });
});

describe('length', () => {
  const FILE_LINES_MAX = 400;
  const FUNCTION_LINES_MAX = 70;
  /** Each of them has to be longer. */
  const LONG_FILES: readonly string[] = [];

  test(`no file is longer than ${FILE_LINES_MAX} lines, but those that are named here`, () => {
    const long = CODE.filter((file) => read(file).split('\n').length - 1 > FILE_LINES_MAX);
    expect(long).toEqual(LONG_FILES);
  });

  /** Without the functions inside: a factory is as long as what it does itself, and each of those is measured too. */
  test(`no function is longer than ${FUNCTION_LINES_MAX} lines`, () => {
    const long = TYPESCRIPT.filter((file) => !file.endsWith('.test.ts')).flatMap((file) => {
      const { nodes, lines, lineOf } = PARSED.get(file)!;
      const spans = nodes
        .filter(({ type }) => FUNCTION_TYPES.has(type))
        .map(({ span }) => ({ from: lineOf(span.start), to: lineOf(span.end - 1) }));
      return spans
        .filter((span) => ownLines(span, spans) > FUNCTION_LINES_MAX)
        .map(({ from }) => `${file}: ${lines[from - 1]}`);
    });
    const longInC = CODE.filter((file) => /\.(c|h|cc)$/.test(file)).flatMap((file) =>
      longBlocks(file, FUNCTION_LINES_MAX),
    );
    expect([...long, ...longInC]).toEqual([]);
  });
});

const FUNCTION_TYPES = new Set([
  'FunctionDeclaration',
  'FunctionExpression',
  'ArrowFunctionExpression',
  'ClassMethod',
  'MethodProperty',
]);

interface Span {
  from: number;
  to: number;
}

function ownLines(span: Span, others: readonly Span[]): number {
  const inner = new Set<number>();
  for (const { from, to } of others) {
    if (from < span.from || to > span.to || (from === span.from && to === span.to)) continue;
    for (let line = from + 1; line < to; line++) inner.add(line);
  }
  return span.to - span.from + 1 - inner.size;
}

/** C functions: their opening and their closing brace are the first character of a line. */
function longBlocks(file: string, linesMax: number): string[] {
  let from = 0;
  return read(file)
    .split('\n')
    .flatMap((line, i, lines) => {
      if (line === '{') from = i;
      return line === '}' && from > 0 && i - from + 1 > linesMax ? [`${file}: ${lines[from - 1]}`] : [];
    });
}

describe('one home for each fact', () => {
  test.each(EVENTS.map(({ name }) => name))('%s has a hook, a kernel test and a row in the README', (name) => {
    const hook = FILES.find((file) => [`bpf/${name}.bpf.c`, `bpf/${name}.bpf.h`].includes(file));
    expect(hook && read(hook)).toContain(`EVENT_${name.toUpperCase()}`);
    const kernelTests = FILES.filter((file) => /^test\/kernel\/.*\.test\.ts$/.test(file));
    expect(kernelTests.filter((file) => (file + read(file)).includes(name))).not.toEqual([]);
    expect(read('README.md')).toContain(`**\`${name}\`**`);
  });

  test('every BPF program file is linked into the object', () => {
    const programs = /^BPF_PROGRAMS := (.*) #$/m.exec(read('Makefile'))![1]!.split(' ');
    const files = FILES.filter((file) => /^bpf\/\w+\.bpf\.c$/.test(file)).map((file) => basename(file, '.bpf.c'));
    expect(programs.toSorted()).toEqual(files);
  });

  test('the tables of README.md are what the code gives now; `make gen` writes them', () => {
    expect(freshReadme(read('README.md'))).toBe(read('README.md'));
  });

  test('the lock file names no registry: whoever installs has one', () => {
    const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, { resolved?: string }> };
    const resolved = Object.entries(packages).filter(([, { resolved }]) => resolved !== undefined);
    expect(resolved).toEqual([['node_modules/libbpf-ts', { resolved: 'native', link: true }]]);
  });
});
