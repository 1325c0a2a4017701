/** A PostgreSQL server for the tests, and its log, which says what each of its backends works for. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { run } from '../kernel/programs.ts';

/** Debian has a folder per version with its programs; this is the newest. */
function programFolder(): string {
  const versions = existsSync(VERSIONS) ? run('ls', ['-v', VERSIONS]).trim().split('\n') : [];
  const folders = versions.map((version) => join(VERSIONS, version, 'bin'));
  const newest = folders.findLast((folder) => existsSync(join(folder, 'pgbench')));
  if (!newest) throw new Error('PostgreSQL with pgbench is not installed (postgresql-15)');
  return newest;
}

const VERSIONS = '/usr/lib/postgresql';
export const PROGRAMS = programFolder();

// The caller's environment is dropped: some of its variables name a service.
const AS_POSTGRES = ['setpriv', '--reuid=postgres', '--regid=postgres', '--init-groups', '--reset-env'];
const READY_MS_MAX = 30_000;
/** Such a user cannot reach a clone below a closed folder such as /root. */
const OPEN_FOLDER = '/';

/** Backends write dirty pages themselves when there are so few buffers; everything that they do is logged. */
const SETTINGS = {
  listen_addresses: '',
  fsync: 'on',
  shared_buffers: '512kB',
  log_statement: 'all',
  log_min_duration_statement: '0',
  log_line_prefix: '@%p@',
  logging_collector: 'off',
};

export interface Cluster {
  folder: string;
  /** Its data folder, with pg_wal and base. */
  data: string;
  remove(): void;
}

export interface Server {
  /** Path of the file with the messages of this run. */
  log: string;
  psql(sql: string): string;
  /** Runs each client's transactions; the script can use `:client_id` and `:i`, which counts from 1. */
  pgbench(script: string, clients: number, transactions: number): void;
  stop(): Promise<void>;
}

export function makeCluster(): Cluster {
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-postgresql-'));
  const data = join(folder, 'data');
  run('chown', ['postgres', folder]);
  asPostgres('initdb', ['-D', data, '--auth=trust', '--locale=C', '--encoding=UTF8', '--no-sync']);
  return { folder, data, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

function asPostgres(program: string, args: readonly string[]): string {
  return run(AS_POSTGRES[0]!, [...AS_POSTGRES.slice(1), join(PROGRAMS, program), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: OPEN_FOLDER,
  });
}

/** `front` is the beginning of the command line, such as `kreplay exec ... --`. */
export async function startServer({ folder, data }: Cluster, front: readonly string[]): Promise<Server> {
  const settings = Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const [file, ...args] = [...front, ...AS_POSTGRES, join(PROGRAMS, 'postgres'), '-D', data, '-k', folder, ...settings];
  const log = join(folder, `log-${performance.now()}`);
  const messages = openSync(log, 'a');
  const server = spawn(file!, args, { stdio: ['ignore', 'ignore', messages], cwd: OPEN_FOLDER });
  closeSync(messages);
  const ended = once(server, 'exit');
  started.push({ server, ended });
  const deadline = performance.now() + READY_MS_MAX;
  while (!isReady(folder)) {
    if (server.exitCode !== null || performance.now() > deadline) throw new Error(`no server: ${readFileSync(log)}`);
    await sleep(50);
  }
  return {
    log,
    psql: (sql) => asPostgres('psql', ['-h', folder, '-Atq', '-c', sql, 'postgres']),
    pgbench(script, clients, transactions) {
      const path = join(folder, 'script.sql');
      writeFileSync(path, script);
      const load = ['-n', '-D', 'i=0', '-c', clients, '-t', transactions, '-f', path].map(String);
      asPostgres('pgbench', ['-h', folder, ...load, 'postgres']);
    },
    async stop() {
      server.kill('SIGINT');
      await ended;
    },
  };
}

const started: { server: ChildProcess; ended: Promise<unknown> }[] = [];

/** Tests call it in afterEach(): a test that fails half-way must leave nothing running. */
export async function endServers(): Promise<void> {
  for (const { server, ended } of started.splice(0)) {
    server.kill('SIGQUIT');
    await ended;
  }
}

function isReady(folder: string): boolean {
  try {
    asPostgres('pg_isready', ['-q', '-h', folder]);
    return true;
  } catch {
    return false;
  }
}

export interface Message {
  bytes: number;
  text: string;
}

/** Each process's messages in the order in which it wrote them; each message is one write. */
export function messagesOf(log: string): Map<number, Message[]> {
  const messages = readFileSync(log, 'utf8').split(/^(?=@\d+@)/m);
  return messages.reduce((byProcess, text) => {
    const pid = Number(/^@(\d+)@/.exec(text)![1]);
    const own = byProcess.get(pid) ?? [];
    own.push({ bytes: Buffer.byteLength(text), text });
    return byProcess.set(pid, own);
  }, new Map<number, Message[]>());
}
