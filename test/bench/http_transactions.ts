/** Reads transactions as a client does: from a daemon, one request after the other over one connection. */
import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { BenchError } from './bench.ts';
import { TRANSACTION_EVENTS, transactionName } from './event_stream.ts';
import { KREPLAY, start } from './process.ts';
import { type Percentiles, percentilesOf } from './statistics.ts';
import { scatteredPlaces } from './store_reads.ts';

export interface HttpTransactionsOptions {
  /** Path of the recording. */
  path: string;
  /** Number of complete transactions in it. */
  transactions: number;
  transactionsRead: number;
  folder: string;
  signal: AbortSignal;
}

/** Nanoseconds per request, after an equal number of requests to warm up. */
export async function readOverHttp({ path, folder, signal, ...asked }: HttpTransactionsOptions): Promise<Percentiles> {
  const socketPath = join(folder, 'daemon.socket');
  const options = ['--data', path, '--listen', `unix:${socketPath}`, '--log-level', 'error'];
  const daemon = start([...KREPLAY, 'daemon', ...options], { signal, channel: true });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const read = async (place: number) => {
    const id = transactionName(Math.floor(place * asked.transactions));
    const startMs = performance.now();
    const request = get({ socketPath, agent, signal, path: `/api/events?transaction_id=${id}`, host: 'localhost' });
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    const body = await text(response);
    const tookNs = (performance.now() - startMs) * 1e6;
    if (response.statusCode !== 200 || JSON.parse(body).events.length !== TRANSACTION_EVENTS)
      throw new BenchError(`the daemon's answer for ${id} is wrong: ${response.statusCode} ${body.slice(0, 200)}`);
    return tookNs;
  };
  try {
    await daemon.ready;
    const tookNs: number[] = [];
    for (const place of scatteredPlaces(asked.transactionsRead * 2)) tookNs.push(await read(place));
    return percentilesOf(tookNs.slice(asked.transactionsRead));
  } finally {
    agent.destroy();
    daemon.stop();
    await daemon.ended;
  }
}
