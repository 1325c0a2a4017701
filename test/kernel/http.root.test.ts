// The trace of an HTTP request goes to what its thread does for it, and never to what is done for another one: servers
// of many kinds report themselves which request each of their writes is for.
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { times } from '../repeats.ts';
import {
  type Load,
  type RequestShape,
  type RunOptions,
  type Score,
  type Scores,
  type Server,
  type SharedAgent,
  scoreFoundServers,
  scoreServer,
  startSharedAgent,
} from './http_truth.ts';
import { built, ROOT, run } from './programs.ts';
import { removeFolders, temporaryFolder } from './recorded_run.ts';

const CONCURRENCIES = [1, 2, 16];
/** Multiples of the concurrencies: each connection has some requests, one after another. */
const REQUESTS = times(64);
/** Used where each request takes its own process, or only the first requests matter. */
const FEW_REQUESTS = times(32);

const PYTHON = '/usr/bin/python3';
const JAVA = '/usr/bin/java';
const JAVAC = '/usr/bin/javac';
const GO = '/usr/bin/go';

/** More than the tests here start, each some times if the agent loses definitions. */
const SERVERS_MAX = 200;

const programs = temporaryFolder();
const nodeByAnotherName = join(programs, 'event_loop');
const source = (name: string) => join(import.meta.dirname, 'http_servers', name);

/** The Go program, and the same without section headers. */
const goProgram = () => built([source('goroutines.go')], [], 'goroutines', buildGo);
const goWithoutSections = () =>
  built([source('goroutines.go')], ['without sections'], 'goroutines_without_sections', (program) => {
    writeFileSync(program, withoutSections(readFileSync(goProgram())), { mode: 0o755 });
  });
/** The folder of the compiled Java program. */
const javaClasses = () =>
  built([source('thread_pool.java')], [], 'thread_pool', (folder) => {
    run(JAVAC, ['-d', folder, source('thread_pool.java')]);
  });

function buildGo(program: string): void {
  const cache = join(ROOT, 'build/test/go');
  mkdirSync(cache, { recursive: true });
  const env = { ...process.env, GOCACHE: cache, CGO_ENABLED: '0' };
  run(GO, ['build', '-o', program, source('goroutines.go')], { env });
}

let shared: SharedAgent;
/** An agent without options, and one that is asked to look at no requests. */
let [plain, withoutLayer]: (SharedAgent | undefined)[] = [];

// Tests wait most of their time: they run side by side, with one agent for all that need no other options.
beforeAll(async () => {
  copyFileSync(process.execPath, nodeByAnotherName);
  shared = await startSharedAgent(SERVERS_MAX);
  plain = await startSharedAgent(SERVERS_MAX, () => []);
  withoutLayer = await startSharedAgent(1, (names) => ['--http-services', ...names, '--without', 'http']);
}, 120_000);

afterAll(async () => {
  for (const each of [shared, plain, withoutLayer]) await each?.agent.stop();
  removeFolders();
});

/** Makes an ELF file look as a packer leaves it: Elf64_Ehdr's e_shoff, e_shnum and e_shstrndx are 0. */
function withoutSections(elf: Buffer): Buffer {
  return elf.fill(0, 0x28, 0x30).fill(0, 0x3c, 0x40);
}

const python = (name: string, mode: string): Server => ({
  name: `python-${name}-${mode}`,
  command: [PYTHON, source(`${name}.py`), 'FOLDER', mode],
});
const java = (mode: string): Server => ({
  name: `java-${mode}`,
  command: [JAVA, '-XX:TieredStopAtLevel=1', '-cp', javaClasses(), 'ThreadPool', 'FOLDER', mode],
});
const node = (mode: string, program = process.execPath): Server => ({
  name: `node-${mode}`,
  command: [program, source('event_loop.ts'), 'FOLDER', mode],
});
const go = (program: string): Server => ({ name: 'go', command: [program, 'FOLDER'] });

/** Runs a test only if this program is installed, which this Debian package contains. */
function where(program: string, debianPackage: string) {
  if (!existsSync(program)) console.warn(`skipped: ${program} is missing, of the Debian package ${debianPackage}`);
  return existsSync(program) ? test.concurrent : test.concurrent.skip;
}

const whereJava = where(JAVAC, 'default-jdk-headless');
const whereGo = where(GO, 'golang-go');

interface LoadOptions {
  shape?: (number: number) => RequestShape;
  requests?: number;
  concurrencies?: readonly number[];
}

function loadsOf({ shape = () => ({}), requests = REQUESTS, concurrencies = CONCURRENCIES }: LoadOptions): Load[] {
  return concurrencies.map((concurrency) => ({ name: `c${concurrency}`, concurrency, requests, shape }));
}

const scoreNamed = (server: Server, loads: readonly Load[]) => scoreServer(server, loads, { shared });

/** The scores if every write of these loads has this verdict. */
function every(verdict: keyof Score, loads: readonly Load[], ...attributions: string[]): Record<string, Scores> {
  const scores = loads.map(({ name, requests }) => {
    const score: Score = { right: 0, none: 0, wrong: 0, missing: 0, [verdict]: requests };
    return [name, { before: score, after: score, attributions }] as const;
  });
  return Object.fromEntries(scores);
}

/** Faults in any case: writes with another request's trace, and writes that were not recorded. */
function faults(scores: Readonly<Record<string, Scores>>): string[] {
  return Object.entries(scores).flatMap(([name, { before, after }]) => {
    const [wrong, missing] = [before.wrong + after.wrong, before.missing + after.missing];
    return wrong + missing > 0 ? [`${name}: ${wrong} wrong, ${missing} missing`] : [];
  });
}

describe('these tests', () => {
  test.concurrent('accept a correct server: each handler labels its thread', async () => {
    const loads = loadsOf({ requests: FEW_REQUESTS });
    expect(await scoreServer(python('threads', 'mark'), loads, { shared: plain })).toEqual(
      every('right', loads, 'marker exact'),
    );
  });

  test.concurrent('detect a wrong server: the handlers of an event loop label their thread once', async () => {
    const scores = await scoreServer(python('coroutines', 'mark'), loadsOf({ concurrencies: [16] }), { shared: plain });
    expect(scores.c16).toMatchObject({ before: { right: REQUESTS, wrong: 0 } });
    expect(scores.c16!.after.wrong).toBeGreaterThan(REQUESTS / 2);
  });
});

describe('requests are not inspected', () => {
  const loads = loadsOf({ requests: FEW_REQUESTS, concurrencies: [2] });

  const scores = (options: RunOptions) => scoreServer(python('threads', 'plain'), loads, options);

  test.concurrent('by default', async () => {
    expect(await scores({ shared: plain })).toEqual(every('none', loads));
  });

  test.concurrent('of a service that is not named', async () => {
    // The agent's names are the beginnings of others.
    expect(await scores({ shared, nameEnd: '-plain' })).toEqual(every('none', loads));
  });

  test.concurrent('without that layer', async () => {
    expect(await scores({ shared: withoutLayer })).toEqual(every('none', loads));
  });
});

const ONE_AT_A_TIME: Record<string, (number: number) => RequestShape> = {
  'kept connections': () => ({}),
  'a connection each': () => ({ ending: 'close' }),
  'some without the header': (number) => ({ traced: number % 10 >= 3 }),
  'POST with a body': () => ({ body: 'x'.repeat(300) }),
  'a body that comes later': () => ({ body: 'x'.repeat(300), cutBefore: 'xxx' }),
  'a long cookie before the header': () => ({ cookieBytes: 1500 }),
  'some reset before the answer': (number) => (number % 8 === 5 ? { ending: 'reset', waitMs: 20 } : {}),
};

describe('a thread that serves one request at a time', () => {
  test.concurrent.each(Object.entries(ONE_AT_A_TIME))('is created for each connection: %s', async (_, shape) => {
    const loads = loadsOf({ shape });
    const scores = await scoreNamed(python('threads', 'plain'), loads);
    expect(scores).toEqual(every('right', loads, 'http exact'));
  });

  whereJava.each(['kept connections', 'some without the header', 'some reset before the answer'])(
    'belongs to a pool: %s',
    async (name) => {
      const loads = loadsOf({ shape: ONE_AT_A_TIME[name]! });
      expect(await scoreNamed(java('plain'), loads)).toEqual(every('right', loads, 'http exact'));
    },
  );

  test.concurrent('includes what its child does in the request', async () => {
    const loads = loadsOf({ requests: FEW_REQUESTS });
    const scores = await scoreNamed(python('threads', 'fork'), loads);
    expect(scores).toEqual(every('right', loads, 'http inherited'));
  });

  test.concurrent('ignores a header beyond the inspected bytes', async () => {
    const loads = loadsOf({ shape: () => ({ cookieBytes: 5000 }) });
    expect(await scoreNamed(python('threads', 'plain'), loads)).toEqual(every('none', loads));
  });

  test.concurrent.each(['every request', 'some'])(
    "keeps a handler's label within the trace until the request ends: %s",
    async (which) => {
      const loads = loadsOf({
        requests: FEW_REQUESTS,
        shape: (number) => (which === 'some' && number % 3 ? { bare: true } : {}),
      });
      const scores = await scoreNamed(python('threads', 'label'), loads);
      const attributions = which === 'some' ? ['http exact', 'marker exact'] : ['marker exact'];
      expect(scores).toEqual(every('right', loads, ...attributions));
    },
  );
});

describe('a server that the agent finds', () => {
  const loads = loadsOf({});
  const closing = loadsOf({ shape: () => ({ ending: 'close' }) });
  const hasJava = existsSync(JAVAC);
  let found: Promise<Record<string, Record<string, Scores>>> | undefined;

  /** One agent finds all of them. */
  async function scoresOf(server: string): Promise<Record<string, Scores>> {
    found ??= scoreFoundServers([
      { server: python('threads', 'plain'), loads },
      ...(hasJava ? [{ server: java('plain'), loads }] : []),
      { server: python('processes', 'prefork'), loads: closing },
    ]);
    return (await found)[server]!;
  }

  test.concurrent('has a thread for each connection', async () => {
    expect(await scoresOf('python-threads-plain')).toEqual(every('right', loads, 'http exact'));
  });

  whereJava('has a pool of waiting threads', async () => {
    expect(await scoresOf('java-plain')).toEqual(every('right', loads, 'http exact'));
  });

  test.concurrent('has waiting processes', async () => {
    expect(await scoresOf('python-processes-prefork')).toEqual(every('right', closing, 'http exact'));
  });
});

describe('a process that serves one request at a time', () => {
  test.concurrent('fork', async () => {
    const loads = loadsOf({ shape: () => ({ ending: 'close' }), requests: FEW_REQUESTS });
    const scores = await scoreNamed(python('processes', 'fork'), loads);
    expect(scores).toEqual(every('right', loads, 'http exact'));
  });

  test.concurrent('is made by prefork before the agent knows its parent', async () => {
    const loads = loadsOf({ shape: () => ({ ending: 'close' }), requests: FEW_REQUESTS });
    expect(faults(await scoreNamed(python('processes', 'prefork'), loads))).toEqual([]);
  });
});

describe('a thread that serves many requests at once gives none of them the trace of another', () => {
  /** Starts a new process for each load: the agent does not look again at one that it found unsuitable. */
  async function faultsOf(server: Server, options: LoadOptions = {}): Promise<string[]> {
    const found: string[] = [];
    for (const load of loadsOf(options)) found.push(...faults(await scoreNamed(server, [load])));
    return found;
  }

  test.concurrent.each([
    ['node by another name', node('sync', nodeByAnotherName)],
    ['node by another name, whose threads write', node('pool', nodeByAnotherName)],
    ['asyncio, streams', python('coroutines', 'streams')],
    ['asyncio, callbacks', python('coroutines', 'callbacks')],
  ])('%s', async (_, server) => {
    expect(await faultsOf(server)).toEqual([]);
  });

  test.concurrent('asyncio reads a request in the turn in which the timer of another one ends', async () => {
    const shape = (number: number) => ({ waitMs: number % 8 === 0 ? 10 : 0 });
    const server = python('coroutines', 'busy');
    expect(await faultsOf(server, { shape, requests: FEW_REQUESTS, concurrencies: [2] })).toEqual([]);
  });

  whereGo('Go without section headers', async () => {
    expect(await faultsOf(go(goWithoutSections()))).toEqual([]);
  });

  test.concurrent.each(['sync', 'pool'])('Node is not inspected: %s', async (mode) => {
    const loads = loadsOf({});
    expect(await scoreNamed(node(mode), loads)).toEqual(every('none', loads));
  });

  whereGo('Go is not inspected', async () => {
    const loads = loadsOf({});
    expect(await scoreNamed(go(goProgram()), loads)).toEqual(every('none', loads));
  });
});

const FOREIGN = 'traceparent: 00-11111111111111111111111111111111-2222222222222222-01\r\n\r\n';

/** Each is sent after a request with the header on the same connection. */
const ODD: Record<string, RequestShape> = {
  'one without the header': { traced: false },
  'a short one without the header': { traced: false, bare: true },
  'one that comes in two parts': { cutBefore: 'HTTP/1.1' },
  'one whose header comes in the second part': { cutBefore: 'traceparent' },
  'one with another method': { method: 'PROPFIND' },
  'one with another method, without the header': { method: 'PROPFIND', traced: false },
  'one whose body has a line like the header': { traced: false, body: `found:\n${FOREIGN}` },
  'one whose body begins like a request': {
    body: `GET / HTTP/1.1\r\nUser-Agent: a\r\n${FOREIGN}`,
    cutBefore: 'GET / ',
  },
};

describe('a request does not pass its trace on to the next', () => {
  test.concurrent.each(Object.entries(ODD))('%s', async (_, odd) => {
    const shape = (number: number) => (number % 2 ? odd : {});
    expect(faults(await scoreNamed(python('threads', 'plain'), loadsOf({ shape, concurrencies: [1, 2] })))).toEqual([]);
  });

  test.concurrent('two requests that arrive together', async () => {
    const shape = (number: number): RequestShape => (number % 2 ? {} : { ending: 'pipeline' });
    expect(faults(await scoreNamed(python('threads', 'plain'), loadsOf({ shape })))).toEqual([]);
  });

  test.concurrent('threads that are made in one request and work for all', async () => {
    expect(faults(await scoreNamed(python('threads', 'pool'), loadsOf({})))).toEqual([]);
  });

  test.concurrent.each(['forked', 'executed'])(
    'processes that are made in one request and work for all: %s',
    async (mode) => {
      expect(faults(await scoreNamed(python('threads', mode), loadsOf({})))).toEqual([]);
    },
  );

  whereJava.each([1, 2, 16])(
    'work of a thread for requests that another thread answers: %i at once',
    async (concurrency) => {
      expect(faults(await scoreNamed(java('async'), loadsOf({ concurrencies: [concurrency] })))).toEqual([]);
    },
  );

  whereJava('work of a thread after its answer and a wait', async () => {
    expect(faults(await scoreNamed(java('later'), loadsOf({})))).toEqual([]);
  });
});
