/** Measures how many small requests a second a daemon answers, compared with an Express server that only says hello. */
import { join } from 'node:path';
import { type BenchContext, BenchError, type BenchResult } from './bench.ts';
import { transactionName } from './event_stream.ts';
import { largeStore } from './large_store.ts';
import { freePort, KREPLAY, NODE, run as runProgram, start } from './process.ts';
import { interleaved } from './rounds.ts';
import { median } from './statistics.ts';

export const summary = 'small requests a second over loopback';
export const unit = 'requests/s, the first ten events of a transaction';

const EVENTS = 2_000_000;
const SHAPE = { eventsPerSecond: 10_000, eventsPerFlush: 4096 };
const SECONDS = 4;
const ROUNDS = 3;
const CONNECTIONS = 16;
const BARE_SERVER = join(import.meta.dirname, 'bare_hello.ts');

const ASKED = {
  transaction: 'the first ten events of a transaction',
  page: 'the first ten events of all',
  health: 'GET /healthz',
  hello: 'a bare Express server',
} as const;
type Asked = keyof typeof ASKED;
const NAMES = Object.keys(ASKED) as Asked[];

interface Measured {
  perSecond: number;
  /** 99th percentile of an answer's time. */
  p99Ms: number;
}

export async function run(context: BenchContext): Promise<BenchResult> {
  const { buildFolder, signal, sizes, progress } = context;
  const events = sizes.events ?? EVENTS;
  progress(`writing ${events} events, unless they are kept from the last time`);
  const { path, transactions } = await largeStore('kreplay', { events, ...SHAPE }, buildFolder, signal);
  const [daemonPort, barePort] = [await freePort(), await freePort()];
  const listen = ['--listen', `127.0.0.1:${daemonPort}`, '--log-level', 'error'];
  const daemon = start([...KREPLAY, 'daemon', '--data', path, ...listen], { signal, channel: true });
  const bare = start([...NODE, BARE_SERVER, String(barePort)], { signal, channel: true });
  const daemonUrl = `http://127.0.0.1:${daemonPort}`;
  const transaction = transactionName(Math.floor(transactions / 2));
  const urls: Record<Asked, string> = {
    transaction: `${daemonUrl}/api/events?transaction_id=${transaction}&limit=10`,
    page: `${daemonUrl}/api/events?limit=10`,
    health: `${daemonUrl}/healthz`,
    hello: `http://127.0.0.1:${barePort}/`,
  };
  try {
    await Promise.all([daemon.ready, bare.ready]);
    const measured = await interleaved(NAMES, ROUNDS, (name, round) => {
      progress(`round ${round + 1} of ${ROUNDS}: ${ASKED[name]}`);
      return load(urls[name], context);
    });
    const middle = (name: Asked, pick: (one: Measured) => number) => median(measured[name].map(pick));
    const rate = (name: Asked) => Math.round(middle(name, ({ perSecond }) => perSecond));
    return {
      value: rate('transaction'),
      anchors: { express: rate('hello') },
      targets: [],
      table: [
        [`${CONNECTIONS} connections`, 'requests/s', 'p99 ms', 'of Express'],
        ...NAMES.map((name) => [
          ASKED[name],
          String(rate(name)),
          middle(name, ({ p99Ms }) => p99Ms).toFixed(2),
          `${Math.round((100 * rate(name)) / rate('hello'))} %`,
        ]),
      ],
      details: { events, measured },
    };
  } finally {
    daemon.stop();
    bare.stop();
    await Promise.allSettled([daemon.ended, bare.ended]);
  }
}

/** The client runs on the CPU that the server does not use. */
async function load(url: string, { signal, loadCpu, sizes }: BenchContext): Promise<Measured> {
  const options = ['--threads', '1', '--connections', String(CONNECTIONS), '--latency'];
  const duration = ['--duration', `${sizes.seconds ?? SECONDS}s`];
  const client = ['taskset', '--cpu-list', String(loadCpu), 'wrk', ...options, ...duration, url];
  const { stdout } = await runProgram(client, { signal });
  if (/Non-2xx|Socket errors/.test(stdout)) throw new BenchError(`not all were answered: ${stdout}`);
  const perSecond = Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]);
  const [, p99, unitOfTime] = /99%\s+([\d.]+)(us|ms|s)\b/.exec(stdout) ?? [];
  const scale = { us: 1e-3, ms: 1, s: 1e3 }[unitOfTime as 'us' | 'ms' | 's'];
  if (!perSecond || !scale) throw new BenchError(`wrk said something else: ${stdout}`);
  return { perSecond, p99Ms: Number(p99) * scale };
}
