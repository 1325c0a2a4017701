/** A recording that is written to, and `kreplay watch` beside it as a process, with a receiver. */
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openReader } from '../../../agent/recording/read/reader.ts';
import type { RecordingWriter } from '../../../agent/recording/write/writer.ts';
import { type Running, start } from '../command_line.ts';
import { appendRows, newFolder, newWriter, type Row, recordingPath } from '../recorded.ts';
import { type Receiver, SECRET, startReceiver } from './receiver.ts';

const NS_PER_MS = 1_000_000n;
const running: Running[] = [];
const receivers: Receiver[] = [];
const writers: RecordingWriter[] = [];
afterEach(async () => {
  for (const { child, ended } of running.splice(0)) {
    child.kill('SIGKILL');
    await ended;
  }
  for (const receiver of receivers.splice(0)) receiver.close();
  for (const writer of writers.splice(0)) writer.close();
});

export interface Watched {
  folder: string;
  state: string;
  bundles: string;
  receiver: Receiver;
  record(...rows: Row[]): void;
  /** Ids of the pinned transactions, sorted. */
  pins(): string[];
  /** Names of the bundles. */
  files(): string[];
  /** Resolves when it watches. */
  watch(...flags: string[]): Promise<Running>;
  /** Starts it, and does not wait. */
  begin(...flags: string[]): Running;
}

export interface WatchedPlaces {
  state?: string;
  bundles?: string;
}

/** `rules` are lines of the rules file. */
export async function watched(rules: readonly string[], places: WatchedPlaces = {}): Promise<Watched> {
  const folder = newFolder();
  const writer = newWriter(folder);
  writers.push(writer);
  appendRows(writer, [{ at: nowNs(), service: 'other' }]);
  const receiver = await startReceiver();
  receivers.push(receiver);
  const [file, secret] = [join(folder, 'rules.toml'), join(folder, 'secret')];
  writeFileSync(secret, SECRET, { mode: 0o600 });
  const hook = ['[webhook]', `url = "${receiver.url}"`, `secret-file = "${secret}"`, 'timeout = "500ms"'];
  writeFileSync(file, [...rules, ...hook].join('\n'));
  const { state = join(folder, 'watch'), bundles = join(state, 'bundles') } = places;
  const flags = ['--data', folder, '--rules', file, '--state', state, '--bundles', bundles, '--quiet', '300ms'];

  function begin(...more: string[]): Running {
    const process = start('watch', ...flags, ...more);
    running.push(process);
    return process;
  }

  return {
    folder,
    state,
    bundles,
    receiver,
    record: (...rows) => appendRows(writer, rows),
    pins() {
      const reader = openReader(recordingPath(folder));
      const ids = reader.pins().map(({ transactionId }) => transactionId);
      reader.close();
      return ids.sort();
    },
    files: () => (existsSync(bundles) ? readdirSync(bundles).filter((name) => name.endsWith('.kreplay')) : []),
    begin,
    async watch(...more) {
      const process = begin(...more);
      await process.printed(/watching/);
      return process;
    },
  };
}

export function nowNs(): bigint {
  return BigInt(Date.now()) * NS_PER_MS;
}

/** Ends a process and resolves to its log. */
export async function end({ child, ended }: Running, signal: NodeJS.Signals): Promise<string> {
  child.kill(signal);
  return (await ended).stderr;
}

/** Ids of the transactions that the receiver has taken, sorted. */
export function told({ taken }: Receiver): string[] {
  return taken.map(({ body }) => body.transaction.transaction_id).sort();
}
