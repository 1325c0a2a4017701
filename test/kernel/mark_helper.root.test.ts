// Writes of a Node program in a transaction of `kreplay/mark` are recorded as that transaction's, and never another's.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { basename, join } from 'node:path';
import type { SysWriteEvent } from '../../bpf/schema/api.ts';
import { ROOT } from './programs.ts';
import { type Recorded, record, removeFolders, temporaryFolder } from './recorded_run.ts';

const CONCURRENCIES = [1, 2, 16];
/** The numbers that marked_writes.ts uses. */
const TRANSACTIONS = 48;
const SYNC_WRITES = 10;
const INNER_WRITES = 5;
const REQUESTS = 60;
const REQUEST_WRITES = 3;
/** An answer has this many bytes plus its request's number. */
const ANSWER_BYTES_MIN = 10_000;

const folder = temporaryFolder();
const program = join(folder, 'marked_writes.ts');
let recorded: Recorded;
let serverPid: number;

/** Installs the package as a user has it: in node_modules, with the program beside it. */
function install(): void {
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(ROOT, join(folder, 'node_modules/kreplay'));
  symlinkSync(join(ROOT, 'node_modules/express'), join(folder, 'node_modules/express'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  copyFileSync(join(import.meta.dirname, 'marked_writes.ts'), program);
}

function outputFolder(name: string): string {
  const path = join(folder, name);
  mkdirSync(path);
  return path;
}

const isNamed = (number: number) => number % 3 !== 2;
const requestName = (concurrency: number, number: number) =>
  `${isNamed(number) ? 'r' : 'nobody'}${concurrency}-${number}`;

async function askServer(port: number, agent: Agent, name: string, bytes: number): Promise<void> {
  const body = JSON.stringify({ name, bytes });
  const headers = { 'Content-Type': 'application/json', ...(name.startsWith('r') && { 'X-Transaction-Id': name }) };
  const [answer] = await once(
    request({ host: '127.0.0.1', port, method: 'POST', agent, headers }).end(body),
    'response',
  );
  expect(answer.statusCode).toBe(200);
  await once(answer.resume(), 'end');
}

async function runServer(): Promise<void> {
  const server = spawn(process.execPath, [program, 'server', outputFolder('server')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  serverPid = server.pid!;
  const ended = once(server, 'exit');
  const [line] = await once(server.stdout.setEncoding('utf8'), 'data');
  for (const [round, concurrency] of CONCURRENCIES.entries()) {
    const agent = new Agent({ keepAlive: true, maxSockets: concurrency });
    let next = 0;
    const client = async () => {
      for (let number = next++; number < REQUESTS; number = next++) {
        const bytes = ANSWER_BYTES_MIN + round * REQUESTS + number;
        await askServer(Number(line), agent, requestName(concurrency, number), bytes);
      }
    };
    await Promise.all(Array.from({ length: concurrency }, client));
    agent.destroy();
  }
  server.stdin.end();
  expect(await ended).toEqual([0, null]);
}

beforeAll(async () => {
  install();
  recorded = await record(async () => {
    for (const concurrency of CONCURRENCIES) {
      const args = [program, 'transactions', outputFolder(`${concurrency}`), `${concurrency}`];
      execFileSync(process.execPath, args, { stdio: 'inherit' });
    }
    await runServer();
  });
}, 120_000);

afterAll(removeFolders);

function writesIn(name: string, wanted: RegExp): SysWriteEvent[] {
  const path = join(folder, name);
  return recorded.writes().filter(({ file }) => file?.startsWith(`${path}/`) && wanted.test(basename(file)));
}

/** `owner` returns the right owner of a write. */
function score(writes: readonly SysWriteEvent[], owner: (write: SysWriteEvent) => string | null) {
  const counts = { right: 0, none: 0, wrong: 0 };
  for (const write of writes) {
    const { transaction_id } = write;
    if (transaction_id === owner(write)) counts.right++;
    else if (transaction_id === null) counts.none++;
    else counts.wrong++;
  }
  return counts;
}

const ofFile = ({ file }: SysWriteEvent) => basename(file!);

test.each(CONCURRENCIES)('all synchronous writes of a transaction belong to it, %i at a time', (concurrency) => {
  const folderName = String(concurrency);
  expect(score(writesIn(folderName, /^t\d+$/), ofFile)).toEqual({
    right: TRANSACTIONS * SYNC_WRITES,
    none: 0,
    wrong: 0,
  });
  const inner = writesIn(folderName, /-inner$/);
  expect(score(inner, ofFile)).toEqual({ right: TRANSACTIONS * INNER_WRITES, none: 0, wrong: 0 });
  expect(new Set(inner.map(({ trace_id, service_name }) => `${trace_id} ${service_name}`))).toEqual(
    new Set(['4bf92f3577b34da6a3ce929d0e0e4736 inner']),
  );
});

test.each(CONCURRENCIES)('writes outside of transactions have no owner, %i at a time', (concurrency) => {
  const writes = writesIn(String(concurrency), /^nobody$/);
  expect(writes.length).toBeGreaterThan(10);
  expect(score(writes, () => null)).toEqual({ right: writes.length, none: 0, wrong: 0 });
});

test.each(CONCURRENCIES)('writes of the thread pool have no owner or the right one, %i at a time', (concurrency) => {
  const counts = score(writesIn(String(concurrency), /-async$/), (write) => ofFile(write).replace('-async', ''));
  expect(counts.right + counts.none).toBe(TRANSACTIONS);
  expect(counts.wrong).toBe(0);
});

test.each(CONCURRENCIES)('each write of a request belongs to it, %i at a time', (concurrency) => {
  const named = writesIn('server', new RegExp(`^r${concurrency}-`));
  const others = writesIn('server', new RegExp(`^nobody${concurrency}-`));
  const numbers = Array.from({ length: REQUESTS }, (_, number) => number);
  const namedCount = numbers.filter(isNamed).length * REQUEST_WRITES;
  expect(score(named, ofFile)).toEqual({ right: namedCount, none: 0, wrong: 0 });
  expect(score(others, () => null)).toEqual({ right: REQUESTS * REQUEST_WRITES - namedCount, none: 0, wrong: 0 });
});

test('each answer belongs to its request', () => {
  const answers = recorded
    .writes({ pid: serverPid })
    .filter(({ file_kind, result }) => file_kind === 'socket' && result > BigInt(ANSWER_BYTES_MIN));
  const headerBytes = Math.min(...answers.map(({ result }) => Number(result))) - ANSWER_BYTES_MIN;
  const owner = ({ result }: SysWriteEvent) => {
    const number = Number(result) - headerBytes - ANSWER_BYTES_MIN;
    const name = requestName(CONCURRENCIES[Math.floor(number / REQUESTS)]!, number % REQUESTS);
    return isNamed(number % REQUESTS) ? name : null;
  };
  expect(score(answers, owner)).toEqual({ right: REQUESTS * CONCURRENCIES.length, none: 0, wrong: 0 });
});
