/** Shipping in the process of the tests: the work of `kreplay ship` without the start of a command, whose own tests start it. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { connect } from '../../agent/clickhouse/connection/connection.ts';
import type { ConnectionSettings } from '../../agent/clickhouse/connection/settings.ts';
import { RECORDING_FILE } from '../../agent/recording_path.ts';
import { COMMAND_PATIENCE, SERVICE_PATIENCE } from '../../agent/ship/persist.ts';
import { createShipProgress, type ShipProgress } from '../../agent/ship/progress.ts';
import { ship } from '../../agent/ship/ship.ts';
import type { ShipperOptions } from '../../agent/ship/shipper.ts';

export type HereOptions = Partial<
  Pick<ShipperOptions, 'eventsMax' | 'flushMs' | 'claims' | 'once'> & { settings: Partial<ConnectionSettings> }
>;

export interface Here {
  progress: ShipProgress;
  /** The lines of its log so far. */
  log(): string;
  logged(pattern: RegExp): Promise<void>;
  /** Ends it as SIGTERM does. */
  end(): Promise<void>;
  /** Rejects with what would end the command. */
  ended: Promise<void>;
}

/** Operators are waited for in short steps. */
const PATIENCE = { ...SERVICE_PATIENCE, blockedFirstMs: 200 };

const running = new Set<Here>();

export async function endShippingHere(): Promise<void> {
  await Promise.all([...running].map((one) => one.end().catch(() => {})));
}

/**
 * Ships from a folder, with its state in a folder beside the recording, until it is ended; with `once` as
 * `kreplay ship --once` does.
 */
export function startHere(folder: string, url: string | readonly string[], options: HereOptions = {}): Here {
  const { settings, ...more } = options;
  const connection = connect({ urls: [url].flat(), database: 'kreplay', ...settings });
  const ending = new AbortController();
  const progress = createShipProgress();
  let text = '';
  const write = (line: string) => {
    text += line;
  };
  const log = pino({ name: 'kreplay-ship' }, { write });
  const all = {
    ...{ folder: join(folder, 'ship'), eventsMax: 262_144, flushMs: 100, catchUp: 3, claims: false, once: false },
    ...{ connection, quorum: undefined, compression: 'none' as const, ...more },
    ...{ patience: more.once ? COMMAND_PATIENCE : PATIENCE, progress, log, signal: ending.signal },
  };
  const ended = ship(all, join(folder, RECORDING_FILE)).finally(() => {
    running.delete(one);
    connection.close();
  });
  // A failure before anybody waits for the end is no unhandled rejection.
  let hasEnded = false;
  const note = () => {
    hasEnded = true;
  };
  ended.then(note, note);
  const one: Here = {
    progress,
    log: () => text,
    async logged(pattern) {
      while (!pattern.test(text)) {
        if (hasEnded) await ended.then(() => Promise.reject(new Error(`ended without ${pattern}: ${text}`)));
        await sleep(10);
      }
    },
    async end() {
      ending.abort();
      await ended;
    },
    ended,
  };
  running.add(one);
  return one;
}

/** Ships all that is recorded. */
export async function shipHere(
  folder: string,
  url: string | readonly string[],
  options: HereOptions = {},
): Promise<{ log: string; progress: ShipProgress }> {
  const { ended, log, progress } = startHere(folder, url, { ...options, once: true });
  await ended;
  return { log: log(), progress };
}
