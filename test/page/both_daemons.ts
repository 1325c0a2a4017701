/** A daemon on recordings of two nodes, and one on a fleet to which they were shipped. */
import { dirname } from 'node:path';
import type { ClickHouseServer } from '../clickhouse/server.ts';
import { type Running, start } from '../daemon/command_line.ts';
import { appendRows, newFolder, type Row, START } from '../daemon/recorded.ts';
import { FIRST_NS, PLANTED, recordMade } from '../daemon/sums/differences/planted.ts';
import { shipOnce } from '../ship/fleet.ts';

const MS = 1_000_000n;
export const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
export const COUNT = 400;
/** The window in which the planted transactions are, and order-both. */
export const WINDOW = `from=${FIRST_NS}&to=${FIRST_NS + 60_000n * MS}`;

/** A transaction that begins on one node, and goes on at another; a thread of the kernel writes its data back. */
function overBoth(node: string): Row[] {
  const owner = { transaction: 'order-both', trace: TRACE };
  const at = FIRST_NS + 50_000n * MS;
  if (node === 'n1')
    return [0n, 1n, 2n, 3n].map((i) => ({
      ...{ ...owner, service: 'shop', at: at + i * 100n * MS, duration: 7n * MS + i, file: `/srv/shop/${i}` },
      ...(i === 3n && { result: -28n }),
    }));
  const asked = { ...owner, service: 'db', comm: 'postgres', file: '/srv/db/wal' };
  return [
    { ...asked, at: at + 120n * MS, duration: 1n * MS + 1n, requested: 2n ** 53n + 1n },
    { ...asked, type: 'sys_sync', at: at + 122n * MS, duration: 60n * MS + 3n, result: 0n },
    {
      ...{ type: 'block_io', service: 'kernel', comm: 'jbd2', device: 'sda', at: at + 123n * MS, duration: 58n * MS },
      ...{ queue: 40n * MS, result: 0n, sector: 2n ** 40n + 1n, bytes: 8192n },
      origins: [{ service: 'db', ...owner, bytes: 8192n }],
    },
    { ...asked, at: at + 200n * MS, duration: 2n * MS, result: -5n },
  ];
}

export function recordedOnBoth(): string[] {
  const { plant } = PLANTED.find(({ name }) => name === 'a neighbour in the queue of a device')!;
  return recordMade(COUNT, 5, plant, (writer, node) => {
    appendRows(writer, overBoth(node));
    writer.recordLoss({
      ...{ cause: 'ring_full', eventType: 'sys_write', count: 12 },
      ...{ fromNs: START - 600_000n * MS, toNs: START - 599_000n * MS },
    });
  });
}

export interface RunningDaemon {
  url: string;
  end(): Promise<void>;
}

export async function startDaemon(...args: string[]): Promise<RunningDaemon> {
  const state = `${newFolder()}/state.sqlite`;
  const daemon: Running = start('daemon', '--listen', '127.0.0.1:0', '--state', state, ...args);
  const [, url = ''] = / at (http:\S+)\n$/.exec(await daemon.printed(/ at http:\S+\n$/)) ?? [];
  return {
    url,
    async end() {
      daemon.child.kill('SIGTERM');
      await daemon.ended;
    },
  };
}

export async function shipAll(server: ClickHouseServer, paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const { code, stderr } = await shipOnce(dirname(path), server.url);
    if (code !== 0) throw new Error(stderr);
  }
}
