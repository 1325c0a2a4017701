/** The agent's life cycle: attaches the probes, opens the recording, records until the end, and closes both. */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import type { Logger } from 'pino';
import { AGENT_SOCKET } from '../bpf/schema/agent_report.ts';
import type { LossCause } from '../bpf/schema/losses.ts';
import { findCgroups } from './attribution/cgroups.ts';
import { createOwnProcessCheck } from './attribution/processes.ts';
import type { ServiceRule } from './attribution/service_name/rules.ts';
import { checkAddon } from './capture/addon.ts';
import type { LayerName, LayerState } from './capture/layers.ts';
import { openProbes } from './capture/probes.ts';
import { createRecorder, type Recorder, type RecorderOptions } from './capture/recorder.ts';
import { createWallClock, type WallClock } from './capture/wall_clock.ts';
import { type DrainProgress, drainUntil } from './drain_loop.ts';
import type { FilterSettings } from './filter/settings.ts';
import { type AgentCounts, createCounts } from './metrics/counts.ts';
import { createLossLog, type LossLog } from './metrics/loss_log.ts';
import { openReportSocket, type ReportSocket } from './metrics/socket.ts';
import { AgentError, ConfigError } from './process/errors.ts';
import type { ServiceManager } from './process/service_manager.ts';
import { RecordingError } from './recording/format/errors.ts';
import { openPinSocket, type PinSocket } from './recording/pin_socket/pin_socket.ts';
import { PIN_SOCKET } from './recording/pin_socket/protocol.ts';
import type { LeftBehind } from './recording/write/committer.ts';
import { lockRecording } from './recording/write/lock.ts';
import { ownFiles } from './recording/write/own_files.ts';
import { setAside } from './recording/write/set_aside.ts';
import { openWriterThread, type WriterThread } from './recording/write/writer_thread.ts';
import { prepareRecordingPath } from './recording_path.ts';
import { chooseRetentionLimits, type RetentionFlags } from './retention_options.ts';

/**
 * If a new recording is damaged within this time of the previous damage, the agent exits: the disk is probably faulty.
 */
const SET_ASIDE_AGAIN_MS = 60_000;

const LIMIT_TOO_SMALL =
  'what must be kept (pinned transactions, the newest events and their names) takes more than --retain-bytes: unpin some with `kreplay unpin`, or raise the limit';

export interface AgentOptions {
  dataFolder: string;
  node?: string | undefined;
  /**
   * Size of all event rings together, a power of two. Events that do not fit between two drains are lost, and counted.
   */
  eventBytes?: number | undefined;
  /** Number of event rings; by default one for each group of CPUs that share a cache. */
  ringCount?: number | undefined;
  /** Whether any user may name the service of its own events. By default, only root and the agent's user may. */
  trustAllServices?: boolean | undefined;
  /** Rules that name services; they take precedence over names derived from the host. */
  serviceRules?: readonly ServiceRule[] | undefined;
  /** Services whose HTTP/1 requests are searched for a `traceparent`; `*` means all. */
  httpServices?: readonly string[] | undefined;
  /** Attribution layers to disable. */
  without?: readonly LayerName[] | undefined;
  /** The filter that applies until the first SIGHUP. */
  filter: FilterSettings;
  /** Called at every SIGHUP; returns the filter to use from then on. Throws AgentError and ConfigError. */
  reread(): FilterSettings;
  /** How much of the recording is kept. */
  retention: RetentionFlags;
  /** Ids of users who may change pins through the agent, in addition to root and the agent's user. */
  pinUsers?: readonly number[] | undefined;
  signal: AbortSignal;
  /** Called for each recording, once all probes are attached. */
  onReady(info: { attached: readonly string[]; layers: readonly LayerState[]; recording: string }): void;
  /**
   * The service manager, such as systemd. The agent reports to the manager when recording begins and stops, and
   * regularly that the recording goes on.
   */
  manager: ServiceManager;
  /** Receives failures that do not stop the recording. */
  log: Logger;
}

export interface AgentTotals {
  events: number;
  lost: number;
  /** Number of marker-line fields that were malformed and left out. */
  badMarkerFields: number;
}

/** The filter that was read last. It outlives the recorder, because a new recording starts with the same filter. */
interface CurrentFilter {
  settings: FilterSettings;
  /** The recorder of the current recording; undefined before a recording has begun and after it has ended. */
  recorder: Recorder | undefined;
}

/** Records until `signal` aborts; starts a new file whenever the current one is removed or damaged. */
export async function runAgent(options: AgentOptions): Promise<AgentTotals> {
  const filter: CurrentFilter = { settings: options.filter, recorder: undefined };
  // The handler stays for the whole run: without a listener, SIGHUP ends the process.
  const hangUps = throttle(RELOAD_EVERY_MS, () => reload(filter, options));
  process.on('SIGHUP', hangUps.call);
  try {
    return await recordAll(options, filter);
  } finally {
    process.off('SIGHUP', hangUps.call);
    hangUps.end();
  }
}

/**
 * Minimum time between reloads of the filter. All signals within this time after a reload cause one further reload, so
 * that a flood of signals does not keep the agent busy.
 */
const RELOAD_EVERY_MS = 100;

/**
 * Returns a function that runs `work` at its first call. Further calls within the interval run `work` once more, at the
 * end of the interval.
 */
function throttle(intervalMs: number, work: () => void): { call(): void; end(): void } {
  let waiting: NodeJS.Timeout | undefined;
  let isDue = false;
  const call = () => {
    isDue = waiting !== undefined;
    if (isDue) return;
    work();
    waiting = setTimeout(() => {
      waiting = undefined;
      if (isDue) call();
    }, intervalMs);
  };
  return { call, end: () => clearTimeout(waiting) };
}

async function recordAll(options: AgentOptions, filter: CurrentFilter): Promise<AgentTotals> {
  const totals = { events: 0, lost: 0, badMarkerFields: 0 };
  let left: InterruptedRun | undefined;
  let asideMs = Number.NEGATIVE_INFINITY;
  do {
    const run = await recordUntilDamaged(options, filter, left);
    if (run.damage) {
      // Gives up, because a disk that damages everything would be filled with new recordings.
      if (performance.now() - asideMs < SET_ASIDE_AGAIN_MS) throw run.damage;
      asideMs = performance.now();
      left = leaveDamaged(prepareRecordingPath(options.dataFolder), run.damage, options.log);
      continue;
    }
    totals.events += run.totals.events;
    totals.lost += run.totals.lost;
    totals.badMarkerFields += run.totals.badMarkerFields;
    left = run.left;
    if (run.left || !options.signal.aborted)
      options.log.error(describeInterruption(prepareRecordingPath(options.dataFolder), run.left));
  } while (!options.signal.aborted);
  return totals;
}

async function recordUntilDamaged(
  options: AgentOptions,
  filter: CurrentFilter,
  before: InterruptedRun | undefined,
): Promise<AgentRun> {
  try {
    return await recordInto(options, filter, before);
  } catch (error) {
    if (!(error instanceof RecordingError) || error.code !== 'recording_corrupt') throw error;
    return { totals: { events: 0, lost: 0, badMarkerFields: 0 }, left: undefined, damage: error };
  }
}

interface AgentRun {
  totals: AgentTotals;
  /** Describes the recorded file if it was removed, replaced, moved or overwritten during the run. */
  left: LeftBehind | undefined;
  /** The damage that ended writing to the file. */
  damage?: RecordingError | undefined;
}

/** Records until `signal` aborts or the recording's files are no longer in place. */
async function recordInto(
  options: AgentOptions,
  filter: CurrentFilter,
  leftBefore: InterruptedRun | undefined,
): Promise<AgentRun> {
  const { dataFolder, onReady, log } = options;
  const path = prepareRecordingPath(dataFolder);
  // Locks the recording early, so that a second agent fails before it attaches probes. The writer takes the lock again
  // and keeps it.
  lockRecording(path).close();
  checkAddon();
  const clock = createWallClock();
  const cgroups = findCgroups();
  const probes = openProbes({
    settings: filter.settings,
    agentPid: process.pid,
    cgroupHierarchy: cgroups.hierarchy,
    without: [...(options.without ?? []), ...(options.httpServices?.length ? [] : (['http'] as const))],
    eventBytes: options.eventBytes,
    ringCount: options.ringCount,
  });
  const progress: DrainProgress = { polledMs: performance.now(), completeNs: clock.nowNs() };
  const node = options.node ?? hostname();
  const counts = createCounts(node);
  const lossLog = createLossLog(log, () => performance.now());
  let writer: WriterThread | undefined;
  let socket: ReportSocket | undefined;
  let pinSocket: PinSocket | undefined;
  /** Why the recording currently cannot be written; null if it can. */
  let failure: string | null = null;
  const onTrouble = (problem: RecordingError | undefined) => {
    failure = problem?.message ?? null;
  };
  let endWatch = () => {};
  let totals: AgentTotals;
  let left: LeftBehind | undefined;
  try {
    // The probes open before the writer, so that capture starts as early as possible. The rings buffer the events until
    // the writer is open.
    writer = await openRecording(options, { path, node, clock, counts, lossLog, leftBefore, onTrouble });
    const report = () => {
      counts.seeRing(probes.events.takePeakBytes());
      const sinceNs = writer!.unsyncedSinceNs();
      return counts.report({
        ringCount: probes.events.readers.length,
        ringBytes: probes.events.ringBytes,
        pendingBytes: probes.events.fullestBytes(),
        unsyncedSeconds: sinceNs === undefined ? 0 : Number(process.hrtime.bigint() - sinceNs) / 1e9,
        failure,
      });
    };
    const socketPath = join(dirname(path), AGENT_SOCKET);
    const onProblem = (message: string) => log.warn(message);
    socket = openReportSocket(socketPath, report, { readableAs: path, onProblem });
    pinSocket = openPinSocket(join(dirname(path), PIN_SOCKET), {
      recording: path,
      users: options.pinUsers ?? [],
      onProblem,
    });
    const recorder = createAgentRecorder(options, { probes, writer, clock, cgroups });
    recorder.setFilter(filter.settings);
    filter.recorder = recorder;
    onReady({ attached: probes.attached, layers: probes.layers, recording: path });
    progress.polledMs = performance.now();
    const { manager } = options;
    manager.reportReady(`recording to ${path}`);
    endWatch = manager.watch(
      (patienceMs) => performance.now() - progress.polledMs < patienceMs && writer!.waitingMs() < patienceMs,
    );
    const files = ownFiles(path);
    await drainUntil(options.signal, { recorder, probes, writer, clock, counts, progress, files });
    if (options.signal.aborted) manager.reportStopping();
    totals = { events: recorder.eventCount, lost: recorder.lossCount, badMarkerFields: recorder.badMarkerFieldCount };
  } finally {
    filter.recorder = undefined;
    endWatch();
    socket?.close();
    probes.close();
    await pinSocket?.close();
    left = await writer?.close(progress.completeNs);
    lossLog.close();
  }
  return { totals, left, damage: writer.damage() };
}

function createAgentRecorder(
  { serviceRules, httpServices, trustAllServices }: AgentOptions,
  parts: Pick<RecorderOptions, 'probes' | 'writer' | 'clock' | 'cgroups'>,
): Recorder {
  const ownUid = process.getuid?.() ?? 0;
  return createRecorder({
    ...parts,
    serviceRules,
    httpServices,
    isOwnProcess: createOwnProcessCheck(process.argv[1] ?? '', ownUid),
    trustsService: (uid) => trustAllServices === true || uid === 0 || uid === ownUid,
  });
}

interface Opening {
  path: string;
  node: string;
  clock: WallClock;
  counts: AgentCounts;
  lossLog: LossLog;
  leftBefore: InterruptedRun | undefined;
  onTrouble(problem: RecordingError | undefined): void;
}

async function openRecording(
  { dataFolder, retention, log }: AgentOptions,
  { path, node, clock, counts, lossLog, leftBefore, onTrouble }: Opening,
): Promise<WriterThread> {
  const writer = await openWriterThread({
    path,
    node,
    bootId: readId('/proc/sys/kernel/random/boot_id'),
    machineId: readId('/etc/machine-id'),
    nowNs: clock.nowNs,
    retention: chooseRetentionLimits(retention, dataFolder),
    onTrouble(problem) {
      onTrouble(problem);
      if (problem) log.error(problem.message);
      else log.info(`${path} can be written again, recording goes on`);
    },
    onNotRetained: once((reason) => log.warn(reason ? `older events cannot be removed: ${reason}` : LIMIT_TOO_SMALL)),
    onCommitted(commit) {
      counts.noteCommit(commit);
      lossLog.noteLosses(commit.batch.losses);
    },
  });
  if (leftBefore) {
    const { fromNs, place, events, cause = 'recording_removed' } = leftBefore;
    const count = place === undefined ? events : 0;
    writer.recordLoss({ cause, eventType: null, count, fromNs, toNs: clock.nowNs() });
  }
  return writer;
}

/** Reads the filter again and applies it; an invalid filter changes nothing. */
function reload(filter: CurrentFilter, { reread, log, signal }: AgentOptions): void {
  if (signal.aborted) return;
  try {
    const settings = reread();
    // Handles the events captured so far with the old filter.
    filter.recorder?.drain();
    filter.recorder?.setFilter(settings);
    filter.settings = settings;
    log.info('the filter was read again');
  } catch (error) {
    if (!(error instanceof AgentError || error instanceof ConfigError)) throw error;
    log.error({ reason: error.message }, 'the filter stays as it is');
  }
}

/** Returns a function whose first call runs `work` and whose later calls do nothing, for messages that would repeat. */
function once<Arguments extends unknown[]>(work: (...args: Arguments) => void): (...args: Arguments) => void {
  let done = false;
  return (...args) => {
    if (!done) work(...args);
    done = true;
  };
}

function readId(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return '';
  }
}

/* Reports why the agent now records into another file. */

/** How the previous recording was interrupted. The next recording stores the interruption as a loss. */
interface InterruptedRun extends LeftBehind {
  cause?: LossCause;
}

function leaveDamaged(path: string, damage: RecordingError, log: Logger): InterruptedRun {
  const { place, writtenUntilNs } = setAside(path, Date.now());
  log.error(
    { file: place, reason: damage.message },
    `${path} is damaged: it is now ${place}, where it is still served, and recording goes on in a new one`,
  );
  return { fromNs: writtenUntilNs, events: 0, place, isOverwritten: false, cause: 'recording_damaged' };
}

function describeInterruption(path: string, left: LeftBehind | undefined): string {
  if (!left) return `the files beside ${path} were removed while it was recorded into: it is opened again`;
  const { place, events, isOverwritten } = left;
  if (isOverwritten)
    return `${path} was overwritten while it was recorded into: the ${events} events that this agent wrote are lost`;
  return place === undefined
    ? `${path} was removed while it was recorded into: the ${events} events that it held are lost`
    : `${path} was replaced or moved while it was recorded into: the ${events} events that it held are in ${place}`;
}
