/** How files are named, which parts of the language are not used, and how long files and functions may be. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { KINDS, kindsOf } from '../jest/kinds.ts';
import {
  CODE,
  FILES,
  importsOf,
  isIn,
  type Node,
  places,
  ROOT,
  read,
  SCRIPTS,
  type Source,
  sourceOf,
  TYPESCRIPT,
} from './source_tree.ts';

describe('names', () => {
  test('no file and no folder has a meaningless name', () => {
    const nothing = /^(utils?|helpers?|common|tools?|misc|shared|lib)$/;
    const named = FILES.flatMap((file) => file.split('/').map((part) => ({ file, name: part.split('.')[0]! })));
    const wrong = named.filter(({ name }) => nothing.test(name)).map(({ file }) => file);
    expect(wrong).toEqual(['bpf/schema/common.ts']);
  });

  test('files and folders are named in snake_case', () => {
    const paths = FILES.filter((file) => CODE.includes(file)).flatMap((file) => file.split('/'));
    expect(paths.filter((part) => !/^[a-z0-9_]+(\.[a-z0-9_]+)*$/.test(part))).toEqual([]);
  });

  test('the top level holds the parts of the project, and nothing else', () => {
    const allowed = new Set([
      ...['package.json', 'package-lock.json', 'tsconfig.json', 'jest.config.js', 'biome.json', '.clang-format'],
      ...['.gitignore', '.ci', 'agent', 'daemon', 'native', 'bpf', 'test', 'Makefile'],
      ...['README.md', 'LICENSE', 'CHANGELOG.md', 'kreplay.ts'],
    ]);
    const tracked = trackedFiles().map((file) => file.split('/')[0]!);
    expect(tracked.filter((name) => !allowed.has(name))).toEqual([]);
  });
});

/** The files that git tracks; in a tree without git, those that are not built. */
function trackedFiles(): string[] {
  if (!existsSync(join(ROOT, '.git'))) return FILES;
  // The tests run as root, on a tree that may belong to another user.
  const list = execFileSync('git', ['-c', 'safe.directory=*', 'ls-files', '-z'], { cwd: ROOT, encoding: 'utf8' });
  return list.split('\0').filter((file) => file !== '');
}

describe('suites', () => {
  const SUITES = FILES.filter((file) => file.endsWith('.test.ts'));

  test('the words of a name are known, and in one order', () => {
    const known = Object.keys(KINDS);
    const inOrder = (words: string[]) => words.toSorted((a, b) => known.indexOf(a) - known.indexOf(b));
    const wrong = SUITES.filter((file) => {
      const words = kindsOf(file);
      return words.some((word) => !known.includes(word)) || String(words) !== String(inOrder(words));
    });
    expect(wrong).toEqual([]);
  });

  test.each([
    ['page', ['test/page/browser.ts']],
    ['proxy', ['test/page/proxy_programs.ts']],
    ['fleet', ['test/clickhouse/server.ts']],
  ])('a suite has the word %s if it imports what starts that program', (word, starters) => {
    const starts = (suite: string) => starters.some((file) => testFilesOf(suite).has(file));
    const wrong = SUITES.filter((suite) => starts(suite) !== kindsOf(suite).includes(word));
    expect(wrong).toEqual([]);
  });
});

/** The files below `test` that a suite imports, also by way of others. */
function testFilesOf(file: string, found = new Set<string>()): Set<string> {
  for (const imported of importsOf(file).filter((one) => isIn(one, 'test') && TYPESCRIPT.includes(one)))
    if (!found.has(imported)) testFilesOf(imported, found.add(imported));
  return found;
}

describe('language', () => {
  const kind = (type: string) => (node: Node) => node.type === type;

  test('no enum, no namespace', () => {
    expect(places(TYPESCRIPT, kind('TsEnumDeclaration'))).toEqual([]);
    expect(places(TYPESCRIPT, (node) => node.type === 'TsModuleDeclaration' && node.declare !== true)).toEqual([]);
  });

  test('no any, except in a test with an explanation', () => {
    const unexplained = (node: Node, { lines, lineOf }: Source) =>
      kind('TsKeywordType')(node) &&
      node.kind === 'any' &&
      !lines[lineOf(node.span.start) - 2]!.includes('noExplicitAny: ');
    const [tests, others] = [true, false].map((inTest) => TYPESCRIPT.filter((file) => isIn(file, 'test') === inTest));
    expect(places(tests!, unexplained)).toEqual([]);
    expect(places(others!, (node) => kind('TsKeywordType')(node) && node.kind === 'any')).toEqual([]);
  });

  test('no default export, except where a tool requires one', () => {
    const found = places(SCRIPTS, (node) => /^ExportDefault/.test(node.type)).map((place) => place.split(':')[0]);
    expect(found).toEqual([
      'jest.config.js',
      ...['check.config', 'closing_line', 'costs', 'long.config', 'progress', 'runner', 'sanitized.config'].map(
        (name) => `test/jest/${name}.js`,
      ),
    ]);
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

  test('no mark for unfinished work is left', () => {
    const left = /\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b/;
    // Bytes of a picture may have any letters.
    const texts = FILES.filter((file) => !file.endsWith('.png'));
    const files = [...texts, 'Makefile', '.ci/run', 'README.md', 'CHANGELOG.md'];
    const found = files.flatMap((file) =>
      read(file)
        .split('\n')
        .flatMap((line, i) => (left.test(line) ? [`${file}:${i + 1}`] : [])),
    );
    expect(found).toEqual([]);
  });
});

describe('length', () => {
  test('README.md has at most 200 lines: longer text has a page in its room', () => {
    expect(read('README.md').split('\n').length - 1).toBeLessThanOrEqual(200);
  });

  const FILE_LINES_MAX = 400;
  const FUNCTION_LINES_MAX = 70;
  /** Each of these files is one idea that takes more. */
  const LONG_FILES: readonly string[] = [
    ...['bpf/bio.bpf.h', 'bpf/dirty_page.bpf.h'],
    ...['test/kernel/origins.root.test.ts', 'test/native/runner/matching.slow.test.ts'],
  ];

  test(`no file is longer than ${FILE_LINES_MAX} lines, except those that are named here`, () => {
    const long = CODE.filter((file) => read(file).split('\n').length - 1 > FILE_LINES_MAX);
    expect(long).toEqual(LONG_FILES);
  });

  const SHORT_FILE_LINES = 25;

  /** Such a file costs a reader a jump, and belongs to its importer. One that nothing imports is a program. */
  test(`no file of fewer than ${SHORT_FILE_LINES} lines has one importer only`, () => {
    const sources = TYPESCRIPT.filter((file) => !isIn(file, 'test'));
    const imported = sources.flatMap((file) => [...new Set(importsOf(file))]);
    const short = sources.filter((file) => read(file).split('\n').length - 1 < SHORT_FILE_LINES);
    expect(short.filter((file) => imported.filter((other) => other === file).length === 1)).toEqual([]);
  });

  /** Inner functions are measured by themselves: a factory is only as long as its own code. */
  test(`no function is longer than ${FUNCTION_LINES_MAX} lines`, () => {
    const long = TYPESCRIPT.filter((file) => !file.endsWith('.test.ts')).flatMap((file) => {
      const { nodes, lines, lineOf } = sourceOf(file);
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

/** Finds long C functions: their opening and their closing brace are the first character of a line. */
function longBlocks(file: string, linesMax: number): string[] {
  let from = 0;
  return read(file)
    .split('\n')
    .flatMap((line, i, lines) => {
      if (line === '{') from = i;
      return line === '}' && from > 0 && i - from + 1 > linesMax ? [`${file}: ${lines[from - 1]}`] : [];
    });
}
