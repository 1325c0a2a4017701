/** `kreplay ship`: sends what the agent records to the tables of a fleet. */

import { join } from 'node:path';
import { Command } from 'commander';
import type { Logger } from 'pino';
import { SHIP_SOCKET } from '../../bpf/schema/ship_report.ts';
import { type Compression, connect } from '../clickhouse/connection/connection.ts';
import { type ConnectionSettings, parseReplicaUrl } from '../clickhouse/connection/settings.ts';
import { addConfigOption, attachConfiguration, DATA_DEFAULT } from '../config/configuration.ts';
import { addHelpEnd, EXIT_CODES } from '../config/help.ts';
import { addServerSettings, DATABASE_DEFAULT } from '../config/server_settings.ts';
import { listDeclared, Setting } from '../config/setting.ts';
import { createChoiceSchema, createTextSchema, DURATION, integer, POSITIVE_INTEGER } from '../config/values.ts';
import { openReportSocket, type ReportSocket } from '../metrics/socket.ts';
import { formatCount } from '../output/amounts.ts';
import { addLogOptions, createLog, type LogFlags } from '../output/log.ts';
import { createEndingSignal } from '../process/ending.ts';
import { ConfigError } from '../process/errors.ts';
import { isLoopback } from '../process/loopback.ts';
import { createServiceManager } from '../process/service_manager.ts';
import { RECORDING_FILE } from '../recording_path.ts';
import { COMMAND_PATIENCE, SERVICE_PATIENCE } from './persist.ts';
import { makeStateFolder } from './position.ts';
import { buildShipReport, createShipProgress, type ShipProgress } from './progress.ts';
import { ship } from './ship.ts';

/**
 * The flags for the servers to ship to. All are optional, because a command that reads only the section of the
 * configuration applies no defaults.
 */
export interface ShipServerFlags {
  url?: string[];
  database?: string;
  user?: string;
  passwordFile?: string;
  tlsCa?: string;
  tlsCert?: string;
  tlsKey?: string;
  state?: string;
}

interface ShipFlags extends LogFlags, ShipServerFlags {
  data: string;
  flush: bigint;
  groupEvents: number;
  catchUp: number;
  compression: 'auto' | Compression;
  quorum?: number;
  claim: boolean;
  once: boolean;
}

const STATE_DEFAULT = './ship';

const FLUSH_NS_MIN = 1_000_000_000n;
const FLUSH_NS_MAX = 600_000_000_000n;
const FLUSH = DURATION.refine((ns) => ns >= FLUSH_NS_MIN && ns <= FLUSH_NS_MAX, 'must be from 1s to 600s');

/** Bounds of the number of events in a group: from one segment to about what a server can insert in a second. */
const EVENTS_MIN = 4096;
const EVENTS_MAX = 1_048_576;
const GROUP_EVENTS = integer(
  createTextSchema((text) => {
    const count = /^\d{1,7}$/.test(text) ? Number(text) : 0;
    return count >= EVENTS_MIN && count <= EVENTS_MAX ? count : undefined;
  }, `must be a whole number from ${EVENTS_MIN} to ${EVENTS_MAX}`),
);

export function createShipCommand(): Command {
  const command = new Command('ship')
    .summary('send what the agent records to a fleet')
    .description(
      'send what the agent records to the ClickHouse tables of a fleet, which `kreplay fleet init` makes: all of it, once, for as long as it runs',
    );
  const configuration = attachConfiguration(command);
  addConfigOption(addShipOptions(command));
  configuration.declare('ship', listDeclared(command));
  command
    .option('--once', 'end when all that is recorded and sealed now has arrived', false)
    .option(
      '--claim',
      'take over a recording that another process has shipped, such as one without its position',
      false,
    )
    .action(run);
  return addHelpEnd(command, {
    examples: [
      'kreplay ship --once --data ./data --url http://127.0.0.1:8123',
      'kreplay ship --url https://db1.example:8443 https://db2.example:8443 --user kr_ship --password-file kr_ship',
    ],
    exitCodes: { ...EXIT_CODES, 0: 'all has arrived (--once), or ended by Ctrl-C or SIGTERM' },
  });
}

/** The section as `kreplay config` checks it. */
export const SHIP_SECTION = {
  declare: addShipOptions,
  check: () => undefined,
};

function addShipOptions(command: Command): Command {
  command.addOption(
    new Setting('--data <folder>', 'folder that the agent records into').default(DATA_DEFAULT).shared(),
  );
  addServerSettings(command, '', "replicas of this node's shard, such as https://db1.example:8443")
    .addOption(new Setting('--state <folder>', 'folder for how far it has come').default(STATE_DEFAULT))
    .addOption(
      new Setting('--flush <duration>', 'time after which events are sent, however few')
        .takes(FLUSH)
        .defaultText('10s'),
    )
    .addOption(
      new Setting('--group-events <count>', 'events that are sent together, at most')
        .takes(GROUP_EVENTS)
        .defaultText('262144'),
    )
    .addOption(
      new Setting('--catch-up <factor>', 'a backlog is sent at so many times the rate of recording')
        .takes(POSITIVE_INTEGER)
        .defaultText('3'),
    )
    .addOption(
      new Setting('--compression <method>', 'auto: none on this machine, else zstd, or gzip for old servers')
        .takes(createChoiceSchema(['auto', 'none', 'gzip', 'zstd']))
        .default('auto'),
    )
    .addOption(
      new Setting('--quorum <count>', 'replicas that must have events before they count as arrived').takes(
        POSITIVE_INTEGER,
      ),
    );
  return addLogOptions(command);
}

/** Returns the server and the folder of the position; undefined if no server is configured. */
export function buildShipServer(flags: ShipServerFlags): { server: ConnectionSettings; folder: string } | undefined {
  const { url: urls, database = DATABASE_DEFAULT, user, passwordFile, state: folder = STATE_DEFAULT } = flags;
  if (!urls || urls.length === 0) return undefined;
  const tls = { ca: flags.tlsCa, cert: flags.tlsCert, key: flags.tlsKey };
  return { server: { urls, database, user, passwordFile, tls }, folder };
}

async function run(flags: ShipFlags): Promise<void> {
  const to = buildShipServer(flags);
  if (!to) throw new ConfigError('no server is set: give --url, or url in the section [ship] of the configuration');
  const log = createLog('kreplay-ship', flags, process.stderr);
  const manager = createServiceManager();
  const progress = createShipProgress();
  const signal = createEndingSignal();
  const connection = connect(to.server);
  const stopWatching = manager.watch(() => true);
  manager.reportReady('shipping');
  const socket = flags.once ? undefined : reportSocket(to.folder, progress, log);
  try {
    await ship(
      {
        folder: to.folder,
        connection,
        quorum: flags.quorum,
        compression: chooseShipCompression(flags.compression, to.server.urls),
        eventsMax: flags.groupEvents,
        flushMs: Number(flags.flush / 1_000_000n),
        catchUp: flags.catchUp,
        claims: flags.claim,
        once: flags.once,
        patience: flags.once ? COMMAND_PATIENCE : SERVICE_PATIENCE,
        progress,
        log,
        signal,
      },
      join(flags.data, RECORDING_FILE),
    );
  } finally {
    socket?.close();
    stopWatching();
    manager.reportStopping();
    connection.close();
  }
  report(progress);
}

/** Returns the compression; undefined if it depends on the server's version. */
function chooseShipCompression(chosen: ShipFlags['compression'], urls: readonly string[]): Compression | undefined {
  if (chosen !== 'auto') return chosen;
  return urls.every((url) => isLoopback(parseReplicaUrl(url).host)) ? 'none' : undefined;
}

/**
 * Opens the metrics socket of a service. A command that ends after its work needs none, because nothing scrapes it.
 * Throws a UserError if the folder cannot be made.
 */
function reportSocket(folder: string, progress: ShipProgress, log: Logger): ReportSocket {
  makeStateFolder(folder);
  const startMs = Date.now();
  return openReportSocket(join(folder, SHIP_SOCKET), () => buildShipReport(progress, startMs, Date.now()), {
    readableAs: folder,
    onProblem: (message) => log.warn(message),
  });
}

function report({ events, groups, unshipped }: ShipProgress): void {
  const lost = unshipped > 0 ? `, ${unshipped} gone before` : '';
  process.stdout.write(
    `kreplay ship: ${formatCount(events, 'event')} arrived in ${formatCount(groups, 'group')}${lost}\n`,
  );
}
