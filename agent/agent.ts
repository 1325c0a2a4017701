/** The agent's life: open the recording, attach, drain on a timer, flush, close. */
import { mkdirSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { createOwnProcessCheck } from './attribution/processes.ts';
import { openProbes, type Probes } from './capture/probes.ts';
import { createRecorder, type Recorder } from './capture/recorder.ts';
import { createWallClock } from './capture/wall_clock.ts';
import { AgentError } from './errors.ts';
import { openWriter, type RecordingWriter } from './recording/writer.ts';

/**
 * A look at how full the rings are costs next to nothing and comes often, because a burst of 2 M writes a second fills
 * 32 MiB in 160 ms. What a look finds is worth a turn when it is much, or old: an event can be queried within
 * 250 ms of its end.
 */
const LOOK_MS = 25;
const TURN_AFTER_MS = 150;
/** Clock and losses are looked after even when no event comes. */
const IDLE_TURN_AFTER_MS = 1000;
const TURN_AT_BYTES = 256 << 10;
const FLUSH_AFTER_MS = 100;

export const DATA_DEFAULT = './data';
/** Where in the data folder the node's recording is. */
const RECORDING_FILE = 'recording.kreplay';

export interface AgentOptions {
  dataFolder: string;
  node?: string | undefined;
  /** Size of the event ring, a power of two; what it can not hold between two drains is lost, and counted. */
  ringBytes?: number | undefined;
  /** Whether any user may name the service of its own events, not only root and the agent's user. */
  trustAllServices?: boolean | undefined;
  signal: AbortSignal;
  /** Called once, when everything is attached. */
  onReady(info: { attached: readonly string[]; recording: string }): void;
  /** A failure that recording goes on after. */
  onProblem(message: string): void;
}

export interface AgentTotals {
  events: number;
  lost: number;
  /** Fields of marker lines that were malformed and left out. */
  badMarkerFields: number;
}

/** Records until `signal` aborts. */
export async function runAgent(options: AgentOptions): Promise<AgentTotals> {
  const { dataFolder, onReady } = options;
  const path = recordingPath(dataFolder);
  const clock = createWallClock();
  const writer = openWriter({
    path,
    node: options.node ?? hostname(),
    bootId: idOf('/proc/sys/kernel/random/boot_id'),
    machineId: idOf('/etc/machine-id'),
    nowNs: clock.nowNs,
  });
  let probes: Probes | undefined;
  try {
    probes = openProbes({ agentPid: process.pid, eventRingBytes: options.ringBytes });
    const ownUid = process.getuid?.() ?? 0;
    const recorder = createRecorder({
      probes,
      writer,
      clock,
      isOwnProcess: createOwnProcessCheck(process.argv[1] ?? '', ownUid),
      trustsService: (uid) => options.trustAllServices === true || uid === 0 || uid === ownUid,
    });
    onReady({ attached: probes.attached, recording: path });
    await record(recorder, probes, writer, options);
    return { events: recorder.eventCount, lost: recorder.lossCount, badMarkerFields: recorder.badMarkerFieldCount };
  } finally {
    probes?.close();
    writer.close();
  }
}

async function record(
  recorder: Recorder,
  probes: Probes,
  writer: RecordingWriter,
  { signal, onProblem }: AgentOptions,
): Promise<void> {
  let turnedMs = 0;
  let flushedMs = 0;
  const flush = () => {
    try {
      writer.flush();
    } catch (error) {
      onProblem((error as Error).message);
    }
    flushedMs = performance.now();
  };
  while (!signal.aborted) {
    const nowMs = performance.now();
    const pendingBytes = probes.pendingBytes();
    const turnAfterMs = pendingBytes > 0 ? TURN_AFTER_MS : IDLE_TURN_AFTER_MS;
    if (pendingBytes >= TURN_AT_BYTES || nowMs - turnedMs >= turnAfterMs) {
      turnedMs = nowMs;
      recorder.turn();
      if (nowMs - flushedMs >= FLUSH_AFTER_MS) flush();
    }
    if (probes.pendingBytes() < TURN_AT_BYTES) await sleep(LOOK_MS);
    else await setImmediate();
  }
  // Nothing is added any more, so what the ring holds can be read to its end.
  probes.detach();
  while (recorder.turn() > 0);
  flush();
}

function recordingPath(dataFolder: string): string {
  try {
    mkdirSync(dataFolder, { recursive: true });
  } catch (error) {
    throw new AgentError(
      `${dataFolder} can not be made (${(error as Error).message}); give another folder with --data`,
    );
  }
  return join(dataFolder, RECORDING_FILE);
}

function idOf(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return '';
  }
}
