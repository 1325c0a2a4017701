/** `kreplay daemon`: serves recordings, or a fleet. */
import { rmSync } from 'node:fs';
import type { Server } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import { dirname, join } from 'node:path';
import { Command } from 'commander';
import type { Logger } from 'pino';
import {
  addConfigOption,
  attachConfiguration,
  type Configuration,
  DATA_DEFAULT,
} from '../../agent/config/configuration.ts';
import { addHelpEnd, EXIT_CODES } from '../../agent/config/help.ts';
import { listDeclared } from '../../agent/config/setting.ts';
import { createLog, type LogFlags } from '../../agent/output/log.ts';
import { ConfigError } from '../../agent/process/errors.ts';
import { createServiceManager, type ServiceManager } from '../../agent/process/service_manager.ts';
import { createPrivateFolder } from '../../agent/process/surroundings.ts';
import { nowNs } from '../base/wall_clock.ts';
import type { AccessOptions } from '../http/access/access.ts';
import { type BearerCheck, createBearerCheck } from '../http/access/bearer.ts';
import type { AccessFlags } from '../http/access/options.ts';
import { createProxies } from '../http/access/proxies.ts';
import { createScanGate, type ScanGate } from '../http/access/scan_gate.ts';
import { readTls, type TlsFiles } from '../http/access/tls.ts';
import { openTokens } from '../http/access/tokens.ts';
import { createUnsent, type Unsent } from '../http/access/unsent.ts';
import type { ListenAddress } from '../http/listen_address.ts';
import { createMetrics } from '../metrics/metrics.ts';
import { createFetchedPlanner } from '../replay/fleet_copies/fetched_planner.ts';
import { chooseStatePlace, type StateChoice } from '../replay/persistence/state_path.ts';
import { openState } from '../replay/persistence/state_thread.ts';
import type { Planner } from '../replay/plan/planner.ts';
import { createPlannerThread } from '../replay/plan/planner_thread.ts';
import { createSessions, type SessionLimits } from '../replay/session/sessions.ts';
import { createEmbeddedStore } from '../store/embedded/embedded_store.ts';
import { checkRecordings } from '../store/embedded/recording_files.ts';
import { openRecordingStore } from '../store/embedded/recording_store.ts';
import { createScanThreads } from '../store/embedded/scan_threads/scan_threads.ts';
import type { ServedPaths } from '../store/embedded/served_files.ts';
import type { FleetSettings } from '../store/fleet/open_fleet.ts';
import type { Store } from '../store/store.ts';
import { createTails, FLEET_TAILS_MAX } from '../tail/tails.ts';
import { buildApp } from './app.ts';
import { addDaemonCommandOptions, buildFleetSettings, type DaemonFlags } from './options.ts';
import { close, type ListenOptions, listen } from './server.ts';

export interface DaemonOptions {
  /** Recordings to serve. */
  places: ServedPaths;
  /** The fleet to serve instead of recordings, and the disk space that copies of its transactions may take. */
  fleet?: { settings: FleetSettings; fetchedBytes: number; forgetNs: bigint; tailLagNs: bigint } | undefined;
  /** State folder of a shipper on this host. */
  shipState?: string | undefined;
  listen: ListenAddress;
  access: AccessFlags;
  /** File in which sessions are stored. */
  state?: StateChoice;
  limits?: Partial<SessionLimits>;
  /** Signal that ends the daemon when it is aborted. */
  signal: AbortSignal;
  log: Logger;
  /** Minimum duration in milliseconds of a request that is logged as slow. */
  slowMs?: number | undefined;
  /**
   * Whether long scans run outside the main thread. A daemon with a single client runs them in the main thread, which
   * saves the start of a thread.
   */
  scansInThreads?: boolean;
  /** Called with the address for clients, once connections are accepted. */
  onListening: (address: string) => void;
  /** Service manager that is notified when the daemon listens, and then regularly while its event loop runs. */
  manager?: ServiceManager;
}

/** Runs the daemon until the signal aborts. If the daemon fails to start, throws an error with a one-line message. */
export async function runDaemon(options: DaemonOptions): Promise<void> {
  const { places, listen: address, limits = {}, signal, log, slowMs, onListening, manager } = options;
  const { scansInThreads = true, shipState } = options;
  const now = nowNs;
  const metrics = createMetrics();
  const unsent = createUnsent({ onClosed: () => metrics.countClosedConnection('not_read') });
  metrics.watchUnsent(unsent);
  const { allowed, scanGate, listening, watchReloads } = openAccess(options.access, log, unsent);
  const { path: statePath, reason } = chooseStatePlace(options.state, places.data);
  const state = statePath === null ? undefined : await openState(statePath);
  const { store, planner } = options.fleet
    ? await openServedFleet(options.fleet, statePath, metrics.recordFleetQuery)
    : openServedRecordings(places, scansInThreads, log);
  const sessions = createSessions({ planner, now, limits, onPlayed: metrics.recordLateness, state, log });
  const tails = createTails({ store, now, log, ...(options.fleet && { tailsMax: FLEET_TAILS_MAX }) });
  let stop = () => {};
  try {
    const served = { store, sessions, tails, data: places.data, shipState };
    const app = buildApp({ ...served, now, log, metrics, slowMs, allowed, scanGate });
    const [server, url] = await listen(app, address, { ...listening, onClosed: metrics.countClosedConnection });
    stop = watchReloads(server);
    onListening(url);
    manager?.reportReady(`serving at ${url}`);
    manager?.watch(() => true);
    if (!state) log.info({ reason }, 'replay sessions end with the daemon; --state keeps them');
    else if (state.rows.length > 0) log.info({ sessions: state.rows.length }, 'replay sessions were restored');
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    manager?.reportStopping();
    // Tails and sessions are closed first, because nothing else ends their streams.
    tails.close();
    void sessions.close();
    await close(server);
  } finally {
    stop();
    await sessions.close();
    await planner.close();
    await store.close();
  }
}

interface Served {
  store: Store;
  planner: Planner;
}

function openServedRecordings(places: ServedPaths, scansInThreads: boolean, log: Logger): Served {
  checkRecordings(places.recordings);
  const recordings = openRecordingStore(places.data, places.recordings, ({ path, error }) =>
    log.error({ file: path, reason: error.message }, 'an imported file cannot be read: the others are served'),
  );
  const store = createEmbeddedStore(
    recordings,
    scansInThreads ? createScanThreads(places, recordings.adopt) : undefined,
  );
  return { store, planner: createPlannerThread(places) };
}

/**
 * Opens the fleet. Copies of transactions are stored next to the sessions' file, because sessions use them again after
 * a restart.
 */
async function openServedFleet(
  { settings, fetchedBytes, forgetNs, tailLagNs }: NonNullable<DaemonOptions['fleet']>,
  statePath: string | null,
  onStatement: (seconds: number) => void,
): Promise<Served> {
  // Loaded on demand, because daemons that serve recordings need no ClickHouse client.
  const [{ openFleet }, { createFleetStore }, { measureFleet }] = await Promise.all([
    import('../store/fleet/open_fleet.ts'),
    import('../store/fleet/fleet_store.ts'),
    import('../store/fleet/open_fleet.ts'),
  ]);
  const fleet = `${settings.database} ${settings.urls.toSorted().join(' ')}`;
  const nodesFile = statePath === null ? undefined : { path: join(dirname(statePath), 'fleet-nodes.json'), fleet };
  const timed = measureFleet(await openFleet(settings), onStatement);
  const store = createFleetStore(timed, { forgetNs, tailLagNs, nodesFile });
  // The nodes are read at the start, so that the daemon can list them while their shard is unreachable.
  store.listSpans().catch(() => {});
  const readers = { ...settings, pins: undefined };
  if (statePath !== null) {
    const folder = join(dirname(statePath), 'fetched');
    return { store, planner: createFetchedPlanner({ fleet: readers, folder, bytesMax: fetchedBytes }) };
  }
  let folder: string;
  try {
    folder = createPrivateFolder('kreplay-fetched-');
  } catch (error) {
    await store.close();
    throw error;
  }
  const planner = createFetchedPlanner({ fleet: readers, folder, bytesMax: fetchedBytes });
  const close = async () => {
    await planner.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { store, planner: { ...planner, close } };
}

export function createDaemonCommand(): Command {
  const command = new Command('daemon').description('serve recorded events and replay them');
  const configuration = attachConfiguration(command);
  addConfigOption(addDaemonCommandOptions(command));
  configuration.declare('daemon', listDeclared(command));
  command.action((flags: Flags) => serve(flags, configuration));
  return addHelpEnd(command, {
    examples: [
      'kreplay daemon --data /var/lib/kreplay',
      'kreplay daemon --recording incident.kreplay --listen unix:/run/kreplay.sock',
      'kreplay daemon --listen 10.0.0.7:7467 --tokens tokens.json --tls-cert cert.pem --tls-key key.pem',
    ],
    exitCodes: { ...EXIT_CODES, 0: 'ended by Ctrl-C or SIGTERM' },
  });
}

interface Flags extends DaemonFlags, LogFlags {
  data?: string;
}

async function serve(flags: Flags, configuration: Configuration): Promise<void> {
  const { data: given, recording: recordings = [], listen, sessionsMax, replayRateMax } = flags;
  const ending = new AbortController();
  // The event `disconnect` means that the parent `kreplay up` is gone. The IPC channel itself must not keep this
  // process alive.
  for (const name of ['SIGINT', 'SIGTERM', 'disconnect']) process.once(name, () => ending.abort());
  process.channel?.unref();
  const fleet = buildFleetSettings(flags);
  const data = fleet ? undefined : (given ?? (recordings.length === 0 ? DATA_DEFAULT : undefined));
  const onListening = (url: string) => {
    const served = fleet
      ? [`the fleet in ${fleet.urls.join(', ')}`]
      : [data, ...recordings].filter((place) => place !== undefined);
    process.stdout.write(`kreplay daemon: serving ${served.join(', ')} at ${url}\n`);
    process.send?.(url);
  };
  const log = createLog('kreplay-daemon', flags, process.stderr);
  process.on('SIGHUP', () => rereadLogLevel(configuration, log));
  const slowMs = Number(flags.logSlowerThan) / 1e6;
  const { signal } = ending;
  const idleMs = Number(flags.sessionIdle) / 1e6;
  const served = {
    places: { data, recordings },
    fleet: fleet && {
      settings: fleet,
      fetchedBytes: flags.fetchedBytes,
      forgetNs: flags.fleetForget,
      tailLagNs: flags.tailLag,
    },
    listen,
    access: flags,
    shipState: flags.shipState,
  };
  const state = flags.state === true ? undefined : flags.state;
  const manager = createServiceManager();
  await runDaemon({
    ...served,
    state,
    limits: { sessionsMax, replayRateMax, idleMs },
    signal,
    log,
    slowMs,
    onListening,
    manager,
  });
}

/** Rereads the log level from the configuration. An invalid configuration changes nothing. */
function rereadLogLevel(configuration: Configuration, log: Logger): void {
  try {
    log.level = configuration.reread<Flags>(log).logLevel;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    log.error({ reason: error.message }, 'the configuration stays as it is');
  }
}

/* Creates the objects for access control from the daemon's options. */

/** Maximum time that a stream may outlive its token. */
const CUT_INTERVAL_MS = 1_000;

interface OpenedAccess {
  allowed: AccessOptions;
  scanGate: ScanGate;
  listening: ListenOptions;
  /** Reloads certificates and tokens on SIGHUP. Returns a function that stops reloading. */
  watchReloads(server: Server): () => void;
}

function openAccess(flags: AccessFlags, log: Logger, unsent: Unsent): OpenedAccess {
  const nowMs = () => performance.now();
  const files = selectTlsFiles(flags);
  const tokens = flags.tokens === undefined ? undefined : openTokens({ path: flags.tokens, nowMs: Date.now, log });
  const proxies = createProxies(flags.trustedProxy);
  const bearer = tokens && createBearerCheck({ tokens, nowMs, log, proxies });
  const openMetrics = flags.openMetrics === true;
  return {
    allowed: { ...(bearer && { bearer }), origins: new Set(flags.corsOrigin), proxies, openMetrics },
    scanGate: createScanGate({ scansMax: flags.maxScans, queryTimeoutMs: flags.queryTimeout, unsent, nowMs }),
    listening: {
      tls: files && readTls(files),
      tokens: tokens !== undefined,
      insecureHttp: flags.insecureHttp === true,
      isProxy: proxies.isTrusted,
      unsent,
    },
    watchReloads(server) {
      const reload = () => {
        tokens?.reload();
        if (files) reloadTls(server as TlsServer, files, log);
      };
      process.on('SIGHUP', reload);
      const stopCutting = bearer ? cutOften(bearer) : () => {};
      return () => {
        process.off('SIGHUP', reload);
        stopCutting();
      };
    },
  };
}

function selectTlsFiles({ tlsCert: cert, tlsKey: key, tlsClientCa: clientCa }: AccessFlags): TlsFiles | undefined {
  return cert === undefined || key === undefined ? undefined : { cert, key, clientCa };
}

function cutOften({ answers }: BearerCheck): () => void {
  const timer = setInterval(answers.cut, CUT_INTERVAL_MS).unref();
  return () => clearInterval(timer);
}

/**
 * Rereads the certificates for new connections. Open connections keep the certificate with which they were established.
 */
function reloadTls(server: TlsServer, files: TlsFiles, log: Logger): void {
  try {
    server.setSecureContext(readTls(files));
    log.info({ cert: files.cert }, 'certificates were read again');
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    log.error({ reason: error.message }, 'certificates stay as they were');
  }
}
