/**
 * Measures how fast a daemon streams a whole recording as NDJSON, compared with an Express server that sends the same
 * bytes.
 */
import { join } from 'node:path';
import { type BenchContext, BenchError, type BenchResult } from './bench.ts';
import { largeStore } from './large_store.ts';
import { KREPLAY, NODE, type Running, run as runProgram, start } from './process.ts';
import { median } from './statistics.ts';

export const summary = 'events a second of an unpaged answer over loopback';
export const unit = 'events/s';

const EVENTS = 2_000_000;
const SHAPE = { eventsPerSecond: 10_000, eventsPerFlush: 4096 };
const ROUNDS = 3;
const EVENTS_PER_SECOND_MIN = 500_000;
const BARE_SERVER = join(import.meta.dirname, 'bare_stream.ts');

interface Answer {
  bytes: number;
  seconds: number;
}

export async function run(context: BenchContext): Promise<BenchResult> {
  const { folder, buildFolder, signal, sizes, progress } = context;
  const events = sizes.events ?? EVENTS;
  progress(`writing ${events} events, unless they are kept from the last time`);
  const { path } = await largeStore('kreplay', { events, ...SHAPE }, buildFolder, signal);
  const [daemonSocket, bareSocket] = [join(folder, 'daemon.socket'), join(folder, 'bare.socket')];
  const listen = ['--listen', `unix:${daemonSocket}`, '--log-level', 'error'];
  const daemon = start([...KREPLAY, 'daemon', '--data', path, ...listen], { signal, channel: true });
  const answers: Record<'kreplay' | 'express', Answer[]> = { kreplay: [], express: [] };
  let bare: Running | undefined;
  try {
    await daemon.ready;
    // Its size is the length that the other server sends. The first answer also warms up the caches.
    const { bytes } = await read(daemonSocket, context);
    bare = start([...NODE, BARE_SERVER, bareSocket, String(bytes)], { signal, channel: true });
    await bare.ready;
    for (let round = 0; round < ROUNDS; round++) {
      progress(`round ${round + 1} of ${ROUNDS}`);
      answers.kreplay.push(await read(daemonSocket, context));
      answers.express.push(await read(bareSocket, context));
    }
    if ([...answers.kreplay, ...answers.express].some((answer) => answer.bytes !== bytes))
      throw new BenchError('the answers differ in length');
  } finally {
    daemon.stop();
    bare?.stop();
    await Promise.allSettled([daemon.ended, bare?.ended]);
  }
  const rate = (all: readonly Answer[]) => Math.round(events / median(all.map(({ seconds }) => seconds)));
  const [kreplay, express] = [rate(answers.kreplay), rate(answers.express)];
  return {
    value: kreplay,
    anchors: { express },
    targets: [
      {
        text: `an unpaged answer has at least ${EVENTS_PER_SECOND_MIN} events/s`,
        measured: String(kreplay),
        met: kreplay >= EVENTS_PER_SECOND_MIN,
      },
    ],
    table: [
      [`${events} events`, 'kreplay', 'express, the same bytes'],
      ['events/s', String(kreplay), String(express)],
    ],
    details: { events, answers },
  };
}

/** The client runs on the CPU that the server does not use. */
async function read(socketPath: string, { signal, loadCpu }: BenchContext): Promise<Answer> {
  const told = ['--write-out', '%{http_code} %{size_download} %{time_total}', '--output', '/dev/null'];
  const asked = ['--header', 'Accept: application/x-ndjson', 'http://localhost/api/events'];
  const client = ['taskset', '--cpu-list', String(loadCpu), 'curl', '--silent', '--unix-socket', socketPath];
  const { stdout } = await runProgram([...client, ...told, ...asked], { signal });
  const [status, bytes, seconds] = stdout.split(' ').map(Number) as [number, number, number];
  if (status !== 200) throw new BenchError(`the answer is ${status}`);
  return { bytes, seconds };
}
