/**
 * Keeps a fleet readable while a shard is unavailable, and finds the nodes whose events are then missing from answers.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from '../../../agent/clickhouse/connection/connection.ts';
import { readTypedRows } from '../../../agent/clickhouse/connection/rows.ts';
import { ServerError } from '../../../agent/clickhouse/connection/server_error.ts';
import type { NativeBlock } from '../../../agent/clickhouse/native/decode.ts';
import { type Sql, sql } from '../../../agent/clickhouse/statements/sql.ts';
import type { ShardWatch } from '../fleet_state.ts';
import { chooseTableSql, type Fleet, isWithoutShard, NO_SHARD, withFleetErrors } from './fleet.ts';
import { type KnownRecording, readFleetNodes, readFleetRecordings } from './fleet_info.ts';
import { createKnownNodes, type NodesFile } from './known_nodes.ts';

export interface Shards {
  /** The fleet to read. Its answers may lack rows of unavailable shards. */
  reading: Fleet;
  watch(): ShardWatch | undefined;
  /** Remembers the recordings that `read` finds for these nodes, or for all nodes. */
  noteRecordings<Found extends KnownRecording>(
    nodes: readonly string[] | undefined,
    read: () => Promise<Found[]>,
  ): Promise<Found[]>;
  /** Lists all nodes, including nodes that are known to be unavailable. */
  listNodes(): Promise<string[]>;
}

/** Creates the reader of a fleet's shards. `nodesFile` keeps the known nodes across restarts. */
export function createShards(fleet: Fleet, nodesFile?: NodesFile): Shards {
  if (!fleet.isCluster)
    return {
      reading: fleet,
      watch: () => undefined,
      noteRecordings: (_, read) => read(),
      listNodes: () => readFleetNodes(fleet),
    };
  const reads = createPartialReads(fleet);
  const reading = { ...fleet, connection: reads.connection };
  const known = createKnownNodes(nodesFile);
  /**
   * Maps each node to the last episode in which some of its recordings were unavailable. Such a node counts as
   * unavailable until the episode ends, even if it answers again in between.
   */
  const lastAway = new Map<string, number>();

  async function noteRecordings<Found extends KnownRecording>(
    nodes: readonly string[] | undefined,
    read: () => Promise<Found[]>,
  ): Promise<Found[]> {
    const count = reads.count();
    const episode = reads.episode();
    const found = await read();
    if (reads.count() === count) known.learn(found, nodes);
    else for (const node of known.compare(found, nodes)) lastAway.set(node, Math.max(episode, lastAway.get(node) ?? 0));
    return found;
  }

  function watch(): ShardWatch {
    const count = reads.count();
    const episode = reads.episode();
    const isPartial = () => reads.count() !== count;
    return {
      isPartial,
      findAwayNodes: () =>
        withFleetErrors(async () => {
          if (!isPartial()) return undefined;
          const found = await noteRecordings(undefined, () => readFleetRecordings(reading));
          return {
            away: [...lastAway].filter(([, last]) => last >= episode).map(([node]) => node),
            present: new Set(found.map(({ node }) => node)),
            knowsAll: known.isWhole(),
          };
        }),
    };
  }

  return {
    reading,
    watch,
    noteRecordings,
    async listNodes() {
      const count = reads.count();
      const found = await readFleetNodes(reading);
      return reads.count() === count ? found : [...new Set([...found, ...known.names()])].sort();
    },
  };
}

/*
 * Reads the available shards while another shard is unavailable. A statement that fails because a shard is missing is
 * sent again with a setting that makes the server skip such shards. For some time, later statements have this setting
 * from the start:
 *
 *   shard        there | away ....................... | there
 *   statements   whole | fails, partial, partial, ... | probe, whole
 *
 * The server does not report which shards it skipped, so statements with this setting are counted: if the count grows
 * during an answer, the answer may lack rows.
 */

/** Interval of the probes that test whether all shards are available again; ordinary statements trigger the probes. */
const PROBE_EVERY_MS = 2_000;
/** Maximum time that a statement waits for a probe, which takes longer if a host drops packets. */
const PROBE_WAIT_MS = 500;
const PROBE_MS_MAX = 5_000;
const LEAVE_OUT = { skip_unavailable_shards: 1 } as const;
/** Error codes with which a server refuses a setting from an account that may only read. */
const SETTING_REFUSED: readonly unknown[] = [164, 452];

interface PartialReads {
  /** The fleet's connection, except that its selects may lack rows of unavailable shards. */
  connection: Connection;
  /** Number of statements sent so far whose answers may lack rows. */
  count(): number;
  /** Number of the current episode in which shards are left out. Outside an episode, the number of the next episode. */
  episode(): number;
}

type Select = Connection['select'];
type Options = Parameters<Select>[1];

function createPartialReads(fleet: Fleet): PartialReads {
  const { connection } = fleet;
  let [count, ended] = [0, 0];
  let isOn = false;
  /** Message of the error that began the episode. */
  let why = 'no replica of a shard answers';
  let probedMs = 0;
  let probe: Promise<void> | undefined;

  function begin(): void {
    if (!isOn) probedMs = performance.now();
    isOn = true;
  }

  function end(): void {
    if (isOn) ended++;
    isOn = false;
  }

  async function probeShards(): Promise<void> {
    try {
      const all = sql`SELECT toUInt64(count()) AS nodes FROM ${chooseTableSql(fleet, 'node')}`;
      await readTypedRows(connection, all, { nodes: 'number' }, { timeoutMs: PROBE_MS_MAX });
      end();
    } catch {
      // The episode continues.
    } finally {
      probedMs = performance.now();
      probe = undefined;
    }
  }

  async function lasts(): Promise<boolean> {
    if (isOn && performance.now() - probedMs >= PROBE_EVERY_MS) {
      probe ??= probeShards();
      await Promise.race([probe, sleep(PROBE_WAIT_MS, undefined, { ref: false })]);
    }
    return isOn;
  }

  async function* selectLeavingOut(statement: Sql, options: Options): AsyncGenerator<NativeBlock> {
    begin();
    count++;
    const settings = { ...options?.settings, ...LEAVE_OUT };
    try {
      yield* connection.select(statement, { ...options, settings });
    } catch (error) {
      if (!(error instanceof ServerError) || !SETTING_REFUSED.includes(error.code)) throw error;
      end();
      throw new ServerError(NO_SHARD, 'wait', `${why}; ${ADVICE}`);
    }
  }

  async function* select(statement: Sql, options: Options): AsyncGenerator<NativeBlock> {
    if (await lasts()) return yield* selectLeavingOut(statement, options);
    // Empty blocks are all the same. They are yielded only at the end, because a statement may return empty blocks and
    // then fail.
    let empty: NativeBlock | undefined;
    let isBegun = false;
    try {
      for await (const block of connection.select(statement, options)) {
        isBegun ||= block.rowCount > 0;
        if (isBegun) yield block;
        else empty = block;
      }
      if (!isBegun && empty) yield empty;
      return;
    } catch (error) {
      if (isBegun || !isWithoutShard(error)) throw error;
      options?.signal?.throwIfAborted();
      why = error.message;
      yield* selectLeavingOut(statement, options);
    }
  }

  return { connection: { ...connection, select }, count: () => count, episode: () => ended };
}

const ADVICE =
  'the others could answer if the account of the daemon may send the setting skip_unavailable_shards: run `kreplay fleet init --accounts` again, or give its profile readonly = 2';
