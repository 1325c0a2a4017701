// The marker line of every language in the documentation labels what its program writes, and nothing else. The programs
// in languages/ contain the lines of the documentation verbatim.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SysWriteEvent } from '../../bpf/schema/api.ts';
import { bash, built, ROOT, run } from './programs.ts';
import { record, removeFolders, temporaryFolder } from './recorded_run.ts';

const SOURCES = join(import.meta.dirname, 'languages');
const DOCUMENTATION = readFileSync(join(ROOT, 'agent/docs/label.md'), 'utf8');

const folder = temporaryFolder();

interface Language {
  /** Name that the documentation's code blocks have. */
  name: string;
  extension: string;
  /** The program that has to be on the path. */
  needs: string;
  compile?: (source: string, program: string) => void;
  /** The command of what was compiled, unless that is a program. */
  runs?: (compiled: string, stem: string) => [string, ...string[]];
}

/** Without a cache that stays, each run would compile Go's own packages again. */
const GO = { GO111MODULE: 'off', CGO_ENABLED: '0', GOCACHE: join(ROOT, 'build/test/go'), GOFLAGS: '' };

const LANGUAGES: readonly Language[] = [
  { name: 'bash', extension: 'sh', needs: 'bash' },
  { name: 'python', extension: 'py', needs: 'python3' },
  { name: 'js', extension: 'js', needs: 'node' },
  {
    name: 'java',
    extension: 'java',
    needs: 'javac',
    compile: (source, folder) => run('javac', ['-d', folder, source]),
    runs: (classes, stem) => ['java', '-cp', classes, { two_orders: 'TwoOrders', pool: 'Pool' }[stem]!],
  },
  { name: 'ruby', extension: 'rb', needs: 'ruby' },
  { name: 'php', extension: 'php', needs: 'php' },
  {
    name: 'go',
    extension: 'go',
    needs: 'go',
    compile: (source, program) => run('go', ['build', '-o', program, source], { env: { ...process.env, ...GO } }),
  },
  {
    name: 'rust',
    extension: 'rs',
    needs: 'rustc',
    compile: (source, program) => run('rustc', ['--edition', '2021', '-o', program, source]),
  },
  {
    name: 'c',
    extension: 'c',
    needs: 'gcc',
    compile: (source, program) => run('gcc', ['-O2', '-Wall', '-Wextra', '-Werror', '-o', program, source]),
  },
];

function isThere({ needs }: Language): boolean {
  return (process.env.PATH ?? '').split(':').some((place) => existsSync(join(place, needs)));
}

const INSTALLED = LANGUAGES.filter(isThere);
for (const { name, needs } of LANGUAGES.filter((each) => !INSTALLED.includes(each))) {
  console.warn(`skipped: ${name} (needs ${needs})`);
}

/** The function that declares a test for the language: it skips it if the language is not installed. */
const testOf = (language: Language) => (INSTALLED.includes(language) ? test : test.skip);

const sourceOf = (stem: string, { extension }: Language) => join(SOURCES, `${stem}.${extension}`);
const outputOf = (stem: string, { name }: Language) => join(folder, `${stem}.${name}.out`);

/** The command that runs a program, which is compiled first if it needs to be. */
function commandOf(stem: string, language: Language): [string, ...string[]] {
  const source = sourceOf(stem, language);
  const { name, needs, compile, runs = (program) => [program] } = language;
  if (!compile) return [needs, source, outputOf(stem, language)];
  const compiled = built([source], [], `${stem}.${name}`, (program) => compile(source, program));
  return [...runs(compiled, stem), outputOf(stem, language)];
}

const POOLS = LANGUAGES.filter((language) => existsSync(sourceOf('pool', language)));
/** Sizes in pool.*: each task of a hundred pairs writes that many bytes plus its number, with a marker or without. */
const [MARKED, UNMARKED, PAIRS] = [1000, 2000, 100];

/** A script, and the label that it has after its second marker. */
const TRAPS: Record<string, [script: string, label: string | null]> = {
  'an echo that is a program': [
    `echo "KREPLAY1 txn=before" >/dev/null
    /bin/echo "KREPLAY1 txn=after" >/dev/null
    printf x >>"$out"`,
    'before',
  ],
  'a marker that Node writes on another thread': [
    `node -e 'const { appendFileSync, promises, writeFileSync } = require("node:fs");
      writeFileSync("/dev/null", "KREPLAY1 txn=before\\n");
      promises.writeFile("/dev/null", "KREPLAY1 txn=after\\n").then(() => appendFileSync(process.argv[1], "x"));' "$out"`,
    'before',
  ],
  'a marker that is still in a buffer': [
    `python3 -c 'import sys
null = open("/dev/null", "w")
print("KREPLAY1 txn=before", file=null, flush=True)
print("KREPLAY1 txn=after", file=null)
open(sys.argv[1], "a").write("x")' "$out"`,
    'before',
  ],
  'a marker that is too long': [
    `echo "KREPLAY1 txn=before" >/dev/null
    echo "KREPLAY1 txn=$(printf '%01020d' 1)" >/dev/null
    printf x >>"$out"`,
    'before',
  ],
  'a marker in two writes': [
    `echo "KREPLAY1 txn=before" >/dev/null
    { printf 'KREPLAY1 '; echo "txn=after"; } >/dev/null
    printf x >>"$out"`,
    null,
  ],
};
const trapOutput = (name: string) => join(folder, `${name}.out`);

/** What each program wrote, by the file. */
let writes: Map<string | null, SysWriteEvent[]>;

beforeAll(async () => {
  const commands = [
    ...INSTALLED.map((language) => commandOf('two_orders', language)),
    ...POOLS.filter((language) => INSTALLED.includes(language)).map((language) => commandOf('pool', language)),
  ];
  const recorded = await record(() => {
    for (const [file, ...args] of commands) run(file, args);
    for (const [name, [script]] of Object.entries(TRAPS)) bash(`set -e; out='${trapOutput(name)}'; ${script}`);
  });
  writes = Map.groupBy(recorded.writes(), ({ file }) => file);
}, 180_000);

afterAll(removeFolders);

/** `owners` maps the sizes of writes to their owners. Other sizes are not looked at. */
function score(output: string, owners: ReadonlyMap<number, string | null>) {
  const counts = { right: 0, none: 0, wrong: 0 };
  for (const { transaction_id, result } of writesTo(output)) {
    const owner = owners.get(Number(result));
    if (owner === undefined) continue;
    if (transaction_id === owner) counts.right++;
    else if (transaction_id === null) counts.none++;
    else counts.wrong++;
  }
  return counts;
}

function writesTo(output: string): SysWriteEvent[] {
  return writes.get(output) ?? [];
}

describe.each(LANGUAGES)('$name', (language) => {
  testOf(language)(`each write of its program has the right owner (needs ${language.needs})`, () => {
    const owners = new Map([
      ['first\n'.length, 'order-8812'],
      ['second\n'.length, 'order-8813'],
      ['neither\n'.length, null],
    ]);
    const output = outputOf('two_orders', language);
    expect(writesTo(output)).toHaveLength(3);
    expect(score(output, owners)).toEqual({ right: 3, none: 0, wrong: 0 });
  });

  test('its program is the one in the documentation', () => {
    const [, block] = new RegExp(`\`\`\`${language.name}\n(.*?)\`\`\``, 's').exec(DOCUMENTATION)!;
    const linesOf = (text: string) => text.split('\n').map((line) => line.trim());
    const documented = linesOf(block!).filter((line) => line !== '');
    const program = linesOf(readFileSync(sourceOf('two_orders', language), 'utf8'));
    expect(documented.filter((line) => !program.includes(line))).toEqual([]);
    expect(program.filter((line) => line.includes('KREPLAY1') && !documented.includes(line))).toEqual([]);
    expect(documented.filter((line) => line.includes('KREPLAY1'))).toHaveLength(2);
  });
});

describe.each(POOLS)('a thread pool in $name', (language) => {
  testOf(language)(`a thread has the label of its creator while the creator holds it (needs ${language.needs})`, () => {
    const owners = writesTo(outputOf('pool', language))
      .filter(({ result }) => result < 105)
      .map(({ result, transaction_id }) => [Number(result), transaction_id]);
    expect(owners).toEqual([
      [101, 'creator'],
      [102, null],
      [103, 'task'],
      [104, null],
    ]);
  });

  testOf(language)(`a task has its own label and that of no other task (needs ${language.needs})`, () => {
    const numbers = Array.from({ length: PAIRS }, (_, number) => number);
    const marked = new Map(numbers.map((number) => [MARKED + number, `task-${number}`]));
    const unmarked = new Map(numbers.map((number) => [UNMARKED + number, null]));
    const output = outputOf('pool', language);
    expect(score(output, marked)).toEqual({ right: PAIRS, none: 0, wrong: 0 });
    expect(score(output, unmarked)).toEqual({ right: PAIRS, none: 0, wrong: 0 });
  });
});

test.each(Object.entries(TRAPS))('a pitfall in the documentation, %s', (name, [, label]) => {
  expect(writesTo(trapOutput(name)).map(({ transaction_id }) => transaction_id)).toEqual([label]);
});
