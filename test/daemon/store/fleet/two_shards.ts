/** A cluster of two shards, each with the recording of one node, and a daemon that reads both from the first. */
import { setTimeout as sleep } from 'node:timers/promises';
import { startCluster } from '../../../clickhouse/cluster.ts';
import type { ClickHouseServer } from '../../../clickhouse/server.ts';
import { initFleet } from '../../../ship/fleet.ts';
import { shipHere } from '../../../ship/here.ts';
import { type Running, start } from '../../command_line.ts';
import { type Row, recordedOn, recordingPath, START, setMeta } from '../../recorded.ts';

export const MINUTE = 60_000_000_000n;
/** Events of each node in each minute. */
const EVENTS = 10;
const MINUTES = 4;

/** The order goes on at both nodes. */
function rowsOf(node: string): Row[] {
  return Array.from({ length: MINUTES * EVENTS }, (_, i) => ({
    at: START + (BigInt(i) * MINUTE) / BigInt(EVENTS) + (node === 'node-b' ? 1_000_000n : 0n),
    file: `/srv/${node}/${i}`,
    service: node === 'node-a' ? 'shop' : 'pay',
    transaction: i < EVENTS ? 'order-1' : `${node}-${Math.floor(i / EVENTS)}`,
    duration: 2_000_000n,
  }));
}

export interface TwoShards {
  /** The one that the daemon asks. */
  near: ClickHouseServer;
  far: ClickHouseServer;
}

export async function startTwoShards(): Promise<TwoShards> {
  const [near, far] = (await startCluster(2, 1)).flat() as [ClickHouseServer, ClickHouseServer];
  for (const server of [near, far]) await initFleet(server, 'main');
  for (const [node, url] of [
    ['node-a', near.url],
    ['node-b', far.url],
  ] as const) {
    const folder = recordedOn(node, rowsOf(node));
    setMeta(recordingPath(folder), {
      ended_ns: START + BigInt(MINUTES) * MINUTE,
      alive_ns: START + BigInt(MINUTES) * MINUTE,
    });
    await shipHere(folder, url);
  }
  return { near, far };
}

// biome-ignore lint/suspicious/noExplicitAny: answers are compared, not used.
type Json = any;

export interface Asked {
  status: number;
  json: Json;
}

export interface FleetDaemon {
  url: string;
  get(path: string): Promise<Asked>;
  post(path: string, body: object): Promise<Asked>;
  /** Asks until the answer is complete, and returns how long that took. */
  completeAgain(path: string): Promise<number>;
  stop(): Promise<void>;
}

export async function startDaemon({ near }: TwoShards, ...more: string[]): Promise<FleetDaemon> {
  const state = more.includes('--state') ? [] : ['--no-state'];
  const daemon: Running = start('daemon', '--listen', '127.0.0.1:0', '--fleet-url', near.url, ...state, ...more);
  const [, url = ''] = / at (http:\S+)\n$/.exec(await daemon.printed(/ at http:\S+\n$/)) ?? [];
  const asked = async (path: string, init?: RequestInit): Promise<Asked> => {
    const answer = await fetch(`${url}${path}`, init);
    return { status: answer.status, json: await answer.json() };
  };
  return {
    url,
    get: (path) => asked(path),
    post: (path, body) =>
      asked(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    async completeAgain(path) {
      const startMs = performance.now();
      for (;;) {
        const { status, json } = await asked(path);
        if (status === 200 && json.coverage.complete) return performance.now() - startMs;
        if (performance.now() - startMs > 60_000) throw new Error(JSON.stringify(json));
        await sleep(100);
      }
    },
    async stop() {
      daemon.child.kill('SIGTERM');
      await daemon.ended;
    },
  };
}

/** Waits until the server of the first shard reaches the other one. */
export async function reachedAgain({ near }: TwoShards): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      return void (await near.sql('SELECT count() FROM kreplay.node_all'));
    } catch (error) {
      if (tries === 200) throw error;
      await sleep(50);
    }
  }
}
