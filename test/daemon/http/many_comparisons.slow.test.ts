/** Tests many comparisons and choices of transactions at once on a daemon: its memory, and that each is answered. */
import { readFileSync } from 'node:fs';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { blockOf } from '../../agent/recording/fixture.ts';
import { type Running, start } from '../command_line.ts';
import { newFolder, newWriter, START } from '../recorded.ts';

const TEST_MS = 240_000;
const BLOCKS = 160;
const BLOCK_ROWS = 4096;
const TRANSACTION_EVENTS = 64;
/** The memory of the events that two answers keep, beside what the daemon takes for any question. */
const MORE_MIB_MAX = 150;

/** Transactions of 64 syncs each, 655,360 events in all: an answer that keeps them takes 20 MB. */
function manyTransactions(): string {
  const folder = newFolder();
  const writer = newWriter(folder);
  const block = blockOf(
    Array.from({ length: BLOCK_ROWS }, (_, row) => ({
      ...{ event_type: 'sys_sync' as const, pid: 7, tid: 7, context_source: 1, context_quality: 1 },
      duration_ns: 400 + (row >> 6),
    })),
  );
  const starts = block.columns.get('timestamp_ns') as BigUint64Array;
  const contexts = block.columns.get('context') as Uint32Array;
  for (let at = 0; at < BLOCKS; at++) {
    for (let row = 0; row < BLOCK_ROWS; row++) {
      const event = at * BLOCK_ROWS + row;
      starts[row] = START - 60_000_000_000n + BigInt(event) * 1000n;
      const transactionId = `tx-${Math.floor(event / TRANSACTION_EVENTS)}`;
      if (row % TRANSACTION_EVENTS === 0)
        contexts.fill(writer.contextId({ transactionId, traceId: null, spanId: null }), row, row + TRANSACTION_EVENTS);
    }
    writer.append(block);
    writer.flush();
  }
  writer.close();
  return folder;
}

let daemon: Running;
let port: string;
beforeAll(async () => {
  // On a busy machine a comparison waits long for those before it.
  const waiting = ['--query-timeout', '60s'];
  daemon = start('daemon', '--data', manyTransactions(), '--listen', '127.0.0.1:0', ...waiting);
  port = /:(\d+)\n/.exec(await daemon.printed(/\n/))![1]!;
});
afterAll(async () => {
  daemon.child.kill('SIGKILL');
  await daemon.ended;
});

interface Asked {
  sent: ClientRequest;
  status: Promise<number>;
}

function ask(path: string): Asked {
  const sent = request({ host: '127.0.0.1', port, path, agent: false });
  const { promise: status, resolve, reject } = Promise.withResolvers<number>();
  sent.on('error', reject).on('response', (res: IncomingMessage) => {
    res.resume().on('end', () => resolve(res.statusCode!));
  });
  status.catch(() => {});
  sent.end();
  return { sent, status };
}

const residentMib = () =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${daemon.child.pid}/status`, 'utf8'))![1]) / 1024;

const COMPARISON = '/api/differences?min_duration_ms=0.0637';
const CHOICE = '/api/transactions?device=sda';

async function mostMibDuring(work: Promise<unknown>): Promise<number> {
  let [most, isOver] = [0, false];
  const over = () => {
    isOver = true;
  };
  work.then(over, over);
  for (; !isOver; await pause(10)) most = Math.max(most, residentMib());
  return most;
}

test(
  'memory is that of few at a time; each is answered or refused, and others are answered meanwhile',
  async () => {
    expect(await ask(COMPARISON).status).toBe(200);
    expect(await ask(CHOICE).status).toBe(200);
    const before = residentMib();
    const asked = Array.from({ length: 40 }, (_, i) => ask(i % 2 === 0 ? COMPARISON : CHOICE));
    const small = (async () => {
      const statuses = [];
      for (let i = 0; i < 10; i++, await pause(50)) statuses.push(await ask('/api/stats?from=-1ms').status);
      return statuses;
    })();
    const all = Promise.all(asked.map(({ status }) => status));
    const most = await mostMibDuring(all);
    if (process.env.SIZES) process.stderr.write(`${Math.round(before)} MiB before, ${Math.round(most)} MiB at most\n`);
    const statuses = await all;
    expect(await small).toEqual(Array(10).fill(200));
    expect(new Set(statuses)).toEqual(new Set([200, 503]));
    // Two run and 16 wait; more are refused at once.
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(4);
    expect(most - before).toBeLessThan(MORE_MIB_MAX);
  },
  TEST_MS,
);

test(
  'clients that leave in the middle make room at once for those that come',
  async () => {
    const before = residentMib();
    const most = mostMibDuring(
      (async () => {
        for (let round = 0; round < 10; round++) {
          const left = Array.from({ length: 18 }, () => ask(COMPARISON));
          await pause(100);
          for (const { sent } of left) sent.destroy();
          await Promise.allSettled(left.map(({ status }) => status));
        }
        const began = Array.from({ length: 4 }, () => ask(CHOICE).status);
        expect(await Promise.all(began)).toEqual([200, 200, 200, 200]);
      })(),
    );
    expect((await most) - before).toBeLessThan(MORE_MIB_MAX);
  },
  TEST_MS,
);
