/**
 * Watches recordings in four independent loops: one examines new events, one pins matching transactions, one writes
 * their bundles, and one calls the webhook. Each loop takes its work from the state on disk, so a hanging receiver or a
 * full disk delays no pin.
 */
import { setTimeout as sleep, setImmediate as yieldNow } from 'node:timers/promises';
import type { Logger } from 'pino';
import { RecordingError } from '../../agent/recording/format/errors.ts';
import { openReader } from '../../agent/recording/read/reader.ts';
import { listSetAside } from '../../agent/recording/write/set_aside.ts';
import { max } from '../base/bigints.ts';
import { stringify } from '../base/exact_json.ts';
import { nowNs } from '../base/wall_clock.ts';
import { Interrupted } from '../export/errors.ts';
import type { DropReason, FailedStep, WatchCounters } from '../metrics/watch_counters.ts';
import type { Recordings } from '../store/embedded/recordings.ts';
import type { TransactionSummary } from '../store/store.ts';
import { removeBundle, writeBundle } from './bundles.ts';
import { createExaminer, NUMBERS_A_CHUNK, type Seen } from './examine.ts';
import type { Rule } from './rules.ts';
import type { AddedMatch, DueDelivery, FoundMatch, Incident, MatchLimits, WatchState } from './state.ts';
import { computeBackoffMs, type OpenWebhook } from './webhook.ts';

export interface WatcherOptions {
  recordings: Recordings;
  /** The folder that the agent records into; bundles are exported from its recording. */
  data: string;
  rules: readonly Rule[];
  state: WatchState;
  webhook: OpenWebhook | undefined;
  /** Length of the period before a transaction that is pinned together with the transaction. */
  beforeNs: bigint;
  /** The bundle of a transaction is written once the transaction has had no new event for this time. */
  quietMs: number;
  folder: string;
  bundleBytesMax: number;
  bundlesMax: number;
  perMinuteMax: number;
  queueMax: number;
  /** Time after which a delivery or a bundle that still fails is given up. */
  giveUpMs: number;
  counters: WatchCounters;
  /** Called once, when all events recorded from then on will be examined. */
  onWatching: () => void;
  log: Logger;
  signal: AbortSignal;
}

const POLL_MS = 200;
const TICK_MS = 100;
/** Interval at which the position is stored while nothing matches. After a kill, later events are examined again. */
const KEEP_EVERY_MS = 1000;
/** Number of matches that are stored in one database transaction. */
const BATCH_MAX = 256;
const RETRY_MS_MAX = 60_000;
/**
 * Time after a match at which the bundle is written even if the transaction still gets events. `DELIVERY_WAIT_MS` is
 * the time after which a delivery no longer waits for the pin and the bundle.
 */
const BUNDLE_WAIT_MS = 60_000;
const DELIVERY_WAIT_MS = 90_000;
/**
 * Time without a new event after which a transaction is no longer followed. A followed transaction's bundle is written
 * again after new events, because the kernel writes data back for some 30 s.
 */
const FOLLOWED_MS = 60_000;
const REWRITE_MS_MIN = 5_000;
const REWRITE_MS_MAX = 3_600_000;
const DELIVERIES_AT_ONCE = 4;
const PINS_A_STEP = 64;
const FOLLOWED_A_STEP = 256;
/** Number of matches cached in memory, so that later events of a matched transaction need no database query. */
const SETTLED_MAX = 65_536;
const SETTLED_NS = BigInt(FOLLOWED_MS) * 1_000_000n;
const LOGGED_CHARACTERS_MAX = 200;
const SERVICES_TOLD_MAX = 20;
const SERVICE_CHARACTERS_MAX = 256;

/** Recording id of a position that marks that the first start found no recording. */
const NO_RECORDING = '';

/** Watches until the signal aborts. */
export async function watch(options: WatcherOptions): Promise<void> {
  const deliverer = createDeliverer(options);
  await Promise.all([
    repeat(options, 'follow', createFollower(options)),
    repeat(options, 'pin', createPinner(options)),
    repeat(options, 'bundle', createBundler(options)),
    repeat(options, 'webhook', deliverer.step),
  ]);
  await deliverer.settle();
}

/**
 * Repeats a step until the signal aborts. Waits between runs as long as the step asks for; after failures, the wait
 * grows.
 */
async function repeat(options: WatcherOptions, step: FailedStep, work: () => Promise<number>): Promise<void> {
  const { signal } = options;
  const notes = createFailureNotes(options, step);
  let failures = 0;
  while (!signal.aborted) {
    let waitMs: number;
    try {
      waitMs = await work();
      notes.noteSuccess();
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      waitMs = Math.min(RETRY_MS_MAX, computeBackoffMs(failures++));
      notes.noteFailure(error as Error);
    }
    await sleep(waitMs, undefined, { signal }).catch(() => {});
  }
}

/** Counts failures, and logs a failure if its reason differs from the reason logged last. */
function createFailureNotes({ log, counters }: WatcherOptions, step: FailedStep) {
  let told = '';
  return {
    noteFailure({ message: reason }: Error): void {
      counters.failures[step]++;
      if (reason !== told) log.warn({ step, reason: shorten(reason) }, 'a step failed, and is tried again');
      told = reason;
    },
    noteSuccess(): void {
      if (told !== '') log.info({ step }, 'it works again');
      told = '';
    },
  };
}

export function shorten(text: string): string {
  return text.length > LOGGED_CHARACTERS_MAX ? `${text.slice(0, LOGGED_CHARACTERS_MAX)}...` : text;
}

/**
 * Returns the limits for the matches of a rule. Without a rule, returns the limits for alerts, whose matches are never
 * dropped.
 */
export function buildLimits(
  { perMinuteMax, queueMax, webhook }: Pick<WatcherOptions, 'perMinuteMax' | 'queueMax' | 'webhook'>,
  rule?: Rule,
): MatchLimits {
  const { atLeast, atMost, coolDownNs = 0n } = rule ?? {};
  return {
    atLeast,
    atMost,
    coolDownNs,
    perMinuteMax: rule && perMinuteMax,
    queueMax: webhook ? queueMax : 0,
  };
}

/**
 * Adds a match to the state. If the transaction's incident is over, the match begins another incident. Returns what
 * `add` of the state returns.
 */
export function addMatch(
  options: Pick<WatcherOptions, 'recordings' | 'state'>,
  found: FoundMatch,
  limits: MatchLimits,
  nowMs: number,
): AddedMatch[] {
  const { state } = options;
  const incident = state.findIncident(found.recordingId, found.transactionId);
  if (incident && isOver(options, incident)) state.end(incident.incidentId);
  return state.add(found, limits, nowMs);
}

/**
 * Whether nothing is left to do for an incident, and no pin keeps what its transaction does next: somebody has removed
 * the pin, or the transaction was gone before it was pinned.
 */
function isOver(
  { recordings }: Pick<WatcherOptions, 'recordings'>,
  { transactionId, recordingId, pin: pinState, followed }: Incident,
): boolean {
  return followed === 0 && pinState !== 'due' && recordings.listPins(transactionId, recordingId).length === 0;
}

/** Counts what became of matches, and logs each one that was added. */
export function noteAdded(
  { counters, log }: Pick<WatcherOptions, 'counters' | 'log'>,
  added: readonly AddedMatch[],
  countedAs?: string,
): void {
  for (const { found, outcome } of added) {
    const { rule, transactionId, service } = found;
    if (outcome === 'rate' || outcome === 'minute') counters.dropped[outcome satisfies DropReason]++;
    if (outcome !== 'matched') continue;
    const counted = countedAs ?? rule;
    counters.matches.set(counted, (counters.matches.get(counted) ?? 0) + 1);
    log.info({ rule, transaction: shorten(transactionId), service: shorten(service) }, 'a transaction matches');
  }
}

/* Examines new events. */

function createFollower(options: WatcherOptions): () => Promise<number> {
  const { recordings, rules, state, counters, log, signal } = options;
  const positions = new Map<string, { number: number; end: number; kept: number; keptMs: number }>();
  const settled = createSettled();
  const examiner = createExaminer({ recordings, rules, isKnown });

  function isKnown({ name }: Rule, seen: Seen): boolean {
    if (settled.has(name, seen)) return true;
    const { recordingId, transactionId } = seen;
    const incident = state.findIncident(recordingId, transactionId);
    if (!incident || !state.hasMatch(recordingId, transactionId, name) || isOver(options, incident)) return false;
    settled.add(name, seen);
    return true;
  }

  function findPosition(recordingId: string, end: number) {
    const known = positions.get(recordingId);
    if (known) return known;
    const stored = state.getPosition(recordingId);
    // The very first recording is examined from its current end on, every later recording from its beginning.
    const number = Math.min(end, stored ?? (state.hasPosition() ? 0 : end));
    if (stored !== number) state.change(() => state.move(recordingId, number));
    const position = { number, end, kept: number, keptMs: performance.now() };
    positions.set(recordingId, position);
    return position;
  }

  function keep(found: readonly { rule: Rule; found: FoundMatch }[], recordingId: string, number?: number): void {
    const nowMs = Date.now();
    const added = state.change(() => {
      const all = found.flatMap((one) => addMatch(options, one.found, buildLimits(options, one.rule), nowMs));
      if (number !== undefined) state.move(recordingId, number);
      state.forget(nowMs);
      return all;
    });
    for (const one of found) settled.add(one.rule.name, one.found);
    noteAdded(options, added);
  }

  /**
   * Stores matches in the state. If that fails, pins some of their transactions at once and throws; the same events are
   * then examined again.
   */
  async function keepOrPin(...[found, recordingId, number]: Parameters<typeof keep>): Promise<void> {
    try {
      keep(found, recordingId, number);
    } catch (error) {
      for (const one of found.slice(0, PINS_A_STEP)) await pin(options, one.found).catch(() => {});
      throw error;
    }
  }

  async function examineChunk(recordingId: string, end: number): Promise<void> {
    const position = findPosition(recordingId, end);
    const { number } = position;
    position.end = end;
    counters.behindEvents = end - number;
    if (number >= end) return;
    const isLong = end - number > NUMBERS_A_CHUNK;
    const from = isLong ? examiner.findNext({ recordingId, from: number, end }) : number;
    const chunkEnd = Math.min(end, from + NUMBERS_A_CHUNK);
    let missed = recordings.countRemoved(recordingId, number, from).count;
    let found: { rule: Rule; found: FoundMatch }[] = [];
    const steps = examiner.examine({ recordingId, from, end: chunkEnd }, (rule, one) =>
      found.push({ rule, found: one }),
    );
    for (;;) {
      const step = steps.next();
      if (step.done) {
        missed += step.value;
        break;
      }
      if (found.length >= BATCH_MAX) {
        const batch = found;
        found = [];
        await keepOrPin(batch, recordingId);
      }
      await yieldNow();
      if (signal.aborted) return;
    }
    // The chunk may have had no events left to read, because the recording was set aside meanwhile.
    if (!listRecordings(options).some((one) => one.recordingId === recordingId)) {
      await keepOrPin(found, recordingId);
      return;
    }
    const isDue = performance.now() - position.keptMs >= KEEP_EVERY_MS;
    if (found.length > 0 || isDue || isLong) {
      await keepOrPin(found, recordingId, chunkEnd);
      position.keptMs = performance.now();
    }
    position.number = chunkEnd;
    // Missed events are counted only when the chunk is done, because a failed chunk is examined again.
    noteMissed(options, missed);
    counters.behindEvents = end - chunkEnd;
  }

  /** Reports what is not examined of the recordings that the recordings `now` have replaced, and forgets them. */
  function leaveReplaced(now: readonly { recordingId: string }[]): void {
    const isThere = (id: string) => now.some(({ recordingId }) => recordingId === id);
    for (const { recordingId, number: kept } of state.listPositions()) {
      if (recordingId === NO_RECORDING || isThere(recordingId)) continue;
      const { number = kept, end = kept } = positions.get(recordingId) ?? {};
      const left = findUnexamined(options.data, recordingId, number) ?? { events: end - number, file: null };
      state.change(() => state.dropPosition(recordingId));
      positions.delete(recordingId);
      noteUnexamined(options, recordingId, left);
    }
  }

  let isWatching = false;
  /** Ids of the recordings that the last step examined. */
  let examined = '';
  return async () => {
    let isBehind = false;
    const now = listRecordings(options);
    for (const { recordingId, end } of now) {
      await examineChunk(recordingId, end);
      isBehind ||= positions.get(recordingId)!.number < end;
    }
    const ids = now.map(({ recordingId }) => recordingId).join(' ');
    // While no recording is there, the former one may come back.
    if (ids !== '' && ids !== examined) {
      leaveReplaced(now);
      examined = ids;
    }
    if (!isWatching && now.length === 0)
      log.warn({ folder: options.data }, 'there is no recording yet: its agent makes one');
    if (!isWatching) options.onWatching();
    isWatching = true;
    return isBehind ? 0 : POLL_MS;
  };
}

/** Returns the recordings that an agent writes, without imported ones; an empty list if no recording exists yet. */
export function listRecordings({ recordings, state }: Pick<WatcherOptions, 'recordings' | 'state'>) {
  try {
    return recordings.extents().filter(({ isImport }) => !isImport);
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'recording_missing') throw error;
    if (!state.hasPosition()) state.change(() => state.move(NO_RECORDING, 0));
    return [];
  }
}

function noteMissed({ counters, log }: WatcherOptions, events: number): void {
  if (events === 0) return;
  counters.missedEvents.retention += events;
  log.error({ events }, 'retention has removed events before they were examined');
}

interface Unexamined {
  events: number;
  /** The file of the recording that was set aside; null if no such file can be read, and `events` is a lower bound. */
  file: string | null;
}

/**
 * Finds the recording among those that the agent has set aside, and counts its events from the number `from` on.
 * Returns undefined if it is not there or cannot be read.
 */
function findUnexamined(folder: string, recordingId: string, from: number): Unexamined | undefined {
  for (const file of listSetAside(folder)) {
    try {
      const reader = openReader(file, { isDamaged: true });
      try {
        if (reader.recordingId !== recordingId) continue;
        const { end } = reader.extent();
        return { events: reader.countStored(from, end) + reader.countRemoved(from, end).count, file };
      } finally {
        reader.close();
      }
    } catch (error) {
      if (!(error instanceof RecordingError)) throw error;
    }
  }
  return undefined;
}

function noteUnexamined({ counters, log }: WatcherOptions, recording: string, { events, file }: Unexamined): void {
  counters.missedEvents.set_aside += events;
  if (file === null)
    log.error({ recording, events }, 'a recording is gone or cannot be read: at least so many events are not examined');
  else if (events > 0)
    log.error({ recording, events, file }, 'a recording was set aside before all of its events were examined');
}

/**
 * Caches the latest pairs of a rule and a matching transaction. A pair is no longer known once its transaction has
 * rested for as long as ends its following: its pin may have been removed since, or the match was only counted or
 * dropped. The rest is measured in recorded time and by this process's clock, as the recording's clock may be set back.
 */
function createSettled() {
  const known = new Map<string, { atNs: bigint; seenMs: number }>();
  const buildKey = (rule: string, { recordingId, transactionId }: Seen) => `${recordingId} ${rule} ${transactionId}`;
  return {
    has(rule: string, seen: Seen): boolean {
      const last = known.get(buildKey(rule, seen));
      const nowMs = performance.now();
      if (!last || nowMs - last.seenMs >= FOLLOWED_MS || seen.atNs - last.atNs >= SETTLED_NS) return false;
      last.seenMs = nowMs;
      last.atNs = max(last.atNs, seen.atNs);
      return true;
    },
    add(rule: string, seen: Seen): void {
      const key = buildKey(rule, seen);
      known.delete(key);
      known.set(key, { atNs: seen.atNs, seenMs: performance.now() });
      if (known.size > SETTLED_MAX) known.delete(known.keys().next().value!);
    },
  };
}

/* Pins transactions. Pins are stored in the recording, and pinning a transaction twice changes nothing. */

/** Resolves to false if the recording does not have the transaction, or is no longer served. */
async function pin(
  { recordings, beforeNs }: WatcherOptions,
  { recordingId, transactionId }: Pick<FoundMatch, 'recordingId' | 'transactionId'>,
): Promise<boolean> {
  return (await recordings.pin({ transactionId, beforeNs, nowNs: nowNs() }, recordingId)) !== undefined;
}

function createPinner(options: WatcherOptions): () => Promise<number> {
  const { state, counters, log, signal } = options;
  const notes = createFailureNotes(options, 'pin');
  /**
   * Id of the newest incident that was tried. Incidents after it are tried first, even while others cannot be pinned.
   */
  let newest = 0;
  /** Id of the last incident retried in the current pass over the unpinned incidents; 0 between passes. */
  let after = 0;
  let [hasFailed, failures, passMs] = [false, 0, 0];

  async function pinOne(incident: Incident): Promise<void> {
    const { incidentId, transactionId } = incident;
    const isPinned = await pin(options, incident);
    state.setPin(incidentId, isPinned ? 'set' : 'gone');
    if (isPinned) counters.pinned++;
    else {
      counters.gone++;
      log.error({ transaction: shorten(transactionId) }, 'a transaction was gone before it was pinned');
    }
  }

  /**
   * Tries to pin an incident. An error is noted but not thrown, so that a transaction too large to pin does not block
   * others.
   */
  async function tryOne(incident: Incident): Promise<void> {
    try {
      await pinOne(incident);
    } catch (error) {
      hasFailed = true;
      if (!signal.aborted) notes.noteFailure(error as Error);
    }
  }

  async function pinNew(): Promise<boolean> {
    const due = state.listUnpinned(newest, PINS_A_STEP);
    for (const incident of due) {
      if (signal.aborted) break;
      newest = incident.incidentId;
      await tryOne(incident);
    }
    return due.length > 0;
  }

  /** Retries some incidents that could not be pinned. While any of them fails, the wait before the next pass grows. */
  async function pinAgain(): Promise<boolean> {
    if (performance.now() < passMs) return false;
    if (after === 0) hasFailed = false;
    const due = state.listUnpinned(after, PINS_A_STEP);
    for (const incident of due) {
      if (signal.aborted) break;
      after = incident.incidentId;
      await tryOne(incident);
    }
    if (due.length === PINS_A_STEP) return true;
    after = 0;
    if (!hasFailed) {
      notes.noteSuccess();
      failures = 0;
    } else passMs = performance.now() + Math.min(RETRY_MS_MAX, computeBackoffMs(failures++));
    return false;
  }

  return async () => {
    const isBusy = (await pinNew()) || (await pinAgain());
    return isBusy ? 0 : TICK_MS;
  };
}

/* Writes bundles. */

/** The progress of a followed transaction, kept only in memory because it is not needed after a restart. */
interface Progress {
  events: number;
  quietSinceMs: number;
  checkMs: number;
  /** Earliest time of the next write. The numbers of failures and of rewrites determine its delay. */
  writeMs: number;
  failures: number;
  rewrites: number;
}

function createBundler(options: WatcherOptions): () => Promise<number> {
  const { recordings, state, quietMs, giveUpMs, log, signal } = options;
  /** Id of the last incident that was checked. */
  let after = 0;
  const known = new Map<number, Progress>();

  function look(incident: Incident, transaction: TransactionSummary, nowMs: number): Progress {
    const before = known.get(incident.incidentId);
    const progress = before ?? { events: -1, quietSinceMs: 0, checkMs: 0, writeMs: 0, failures: 0, rewrites: 0 };
    if (transaction.eventCount !== progress.events) {
      progress.events = transaction.eventCount;
      progress.quietSinceMs = nowMs;
    }
    progress.checkMs = nowMs + TICK_MS * (incident.bundle === 'due' ? 1 : 10);
    known.set(incident.incidentId, progress);
    return progress;
  }

  async function follow(incident: Incident): Promise<void> {
    const nowMs = performance.now();
    const { incidentId, bundle } = incident;
    if ((known.get(incidentId)?.checkMs ?? 0) > nowMs) return;
    const transaction = recordings.findTransaction(incident.transactionId, incident.recordingId);
    if (!transaction) {
      if (bundle === 'due') state.setBundle(incidentId, 'gone');
      return leave(incidentId);
    }
    const progress = look(incident, transaction, nowMs);
    const ageMs = nowMs - progress.quietSinceMs;
    const isDue =
      bundle === 'due'
        ? ageMs >= quietMs || getAgeMs(incident) >= BUNDLE_WAIT_MS
        : isChanged(incident, progress) && ageMs >= quietMs;
    if (isDue && nowMs >= progress.writeMs) await write(options, incident, progress);
    if (bundle === 'due' && incident.problem !== null && getAgeMs(incident) >= giveUpMs) giveUp(incident);
    if (bundle !== 'due' && ageMs >= FOLLOWED_MS && !isChanged(incident, progress)) leave(incidentId);
  }

  function giveUp({ incidentId, transactionId }: Incident): void {
    state.setBundle(incidentId, 'failed');
    log.error({ transaction: shorten(transactionId) }, 'a bundle is given up; a pin of its transaction stays');
    leave(incidentId);
  }

  function leave(incidentId: number): void {
    state.leave(incidentId);
    known.delete(incidentId);
  }

  return async () => {
    const followed = state.listFollowed(after, FOLLOWED_A_STEP);
    for (const incident of followed) {
      if (signal.aborted) break;
      after = incident.incidentId;
      await follow(incident);
    }
    if (followed.length < FOLLOWED_A_STEP) after = 0;
    return TICK_MS;
  };
}

/** Returns the time since the match. The difference is absolute, because the wall clock may have been set back. */
function getAgeMs({ matchedMs }: Pick<Incident, 'matchedMs'>): number {
  return Math.abs(Date.now() - matchedMs);
}

function isChanged({ bundle, bundleEvents }: Incident, { events }: Progress): boolean {
  return bundle === 'written' && bundleEvents !== events;
}

async function write(options: WatcherOptions, incident: Incident, progress: Progress): Promise<void> {
  const { data, folder, bundleBytesMax: bytesMax, state, counters, log, signal } = options;
  const { incidentId, transactionId, recordingId, matchedMs } = incident;
  const { events } = progress;
  try {
    const result = await writeBundle({ data, recordingId, transactionId, matchedMs, folder, bytesMax, signal });
    if (result.kind === 'written') {
      state.setWritten(incidentId, result.file, result.bytes, events, Date.now());
      counters.bundlesWritten++;
      makeRoom(options, incidentId);
    } else if (result.kind === 'gone' && incident.file !== null) {
      // The recording has lost the transaction, so the bundle that was written before is kept, and stays counted.
      state.leave(incidentId);
    } else {
      if (result.kind === 'too_large' && incident.file !== null) removeBundle(folder, incident.file);
      state.setBundle(incidentId, result.kind);
      log.warn({ transaction: shorten(transactionId), reason: result.kind }, 'no bundle is written');
    }
    progress.failures = 0;
    progress.writeMs =
      performance.now() + Math.min(REWRITE_MS_MAX, REWRITE_MS_MIN * 2 ** Math.min(20, progress.rewrites++));
  } catch (error) {
    if (signal.aborted || error instanceof Interrupted) return;
    const reason = shorten((error as Error).message);
    if (incident.problem !== reason)
      log.warn({ transaction: shorten(transactionId), reason }, 'a bundle is not written, and is tried again');
    counters.failures.bundle++;
    progress.writeMs = performance.now() + Math.min(RETRY_MS_MAX, computeBackoffMs(progress.failures++));
    state.setProblem(incidentId, reason);
  }
}

/** Removes the oldest bundles until the limits hold. The bundle of incident `except`, which was just written, stays. */
function makeRoom({ state, folder, bundleBytesMax, bundlesMax, counters, log }: WatcherOptions, except: number): void {
  for (;;) {
    const { bundles, bundleBytes } = state.count();
    if (bundles <= bundlesMax && bundleBytes <= bundleBytesMax) return;
    const oldest = state.findOldestWritten(except);
    if (!oldest) return;
    if (oldest.file !== null) removeBundle(folder, oldest.file);
    state.setBundle(oldest.incidentId, 'removed');
    counters.bundlesRemoved++;
    log.info({ file: oldest.file }, 'the oldest bundle makes room; a pin of its transaction stays');
  }
}

/* Calls the webhook. */

function createDeliverer(options: WatcherOptions): { step: () => Promise<number>; settle: () => Promise<void> } {
  const { state, webhook, signal, log, counters } = options;
  const busy = new Map<string, Promise<void>>();
  let told: string | undefined;

  async function deliver(delivery: DueDelivery, hook: OpenWebhook): Promise<void> {
    const { deliveryId: id, attempts } = delivery;
    const body = buildBody(options, delivery);
    const problem = await hook.send({ id, body, nowMs: Date.now(), signal });
    // If the process ends during the attempt, the delivery stays due and is sent again with the same id.
    if (signal.aborted && problem !== undefined) return;
    if (problem === undefined) {
      state.setDelivery(delivery, 'done');
      counters.delivered++;
      if (told !== undefined) log.info({ webhook: hook.origin }, 'the webhook takes deliveries again');
      told = undefined;
      return;
    }
    counters.failures.webhook++;
    if (told !== problem) log.warn({ webhook: hook.origin, reason: problem }, 'a delivery failed, and is tried again');
    told = problem;
    const isOver = getAgeMs(delivery) >= options.giveUpMs;
    state.setDelivery(delivery, isOver ? 'given_up' : 'due', Date.now() + computeBackoffMs(attempts));
    if (!isOver) return;
    counters.givenUp++;
    log.error({ delivery: id, webhook: hook.origin }, 'a delivery is given up; a pin of its transaction stays');
  }

  async function step(): Promise<number> {
    if (!webhook) return KEEP_EVERY_MS;
    const nowMs = Date.now();
    const due = state.listDue(nowMs, nowMs - DELIVERY_WAIT_MS, DELIVERIES_AT_ONCE + busy.size);
    for (const delivery of due) {
      const { deliveryId } = delivery;
      if (busy.has(deliveryId) || busy.size >= DELIVERIES_AT_ONCE) continue;
      const delivered = deliver(delivery, webhook)
        .catch(async (error: Error) => {
          log.warn({ reason: shorten(error.message) }, 'what became of a delivery cannot be kept: it is sent again');
          await sleep(KEEP_EVERY_MS, undefined, { signal }).catch(() => {});
        })
        .finally(() => busy.delete(deliveryId));
      busy.set(deliveryId, delivered);
    }
    return TICK_MS;
  }

  return {
    step,
    async settle() {
      await Promise.all(busy.values());
    },
  };
}

/** Builds the JSON body of a delivery. */
function buildBody({ recordings, state, folder }: WatcherOptions, delivery: DueDelivery): string {
  const { deliveryId, rule, transactionId, service, atNs, held, incidentId } = delivery;
  const incident = state.getIncident(incidentId)!;
  const { recordingId } = incident;
  const transaction = recordings.findTransaction(transactionId, recordingId);
  return stringify({
    version: 1,
    id: deliveryId,
    rule,
    service,
    matched_at_ns: atNs,
    held_back: held,
    // An earlier attempt may have failed for hours, in which somebody has removed the pin.
    pinned: recordings.listPins(transactionId, recordingId).length > 0,
    transaction: {
      transaction_id: transactionId,
      ...(transaction && describeTransaction(transaction)),
    },
    bundle: incident.bundle === 'written' ? { folder, file: incident.file, bytes: incident.bundleBytes } : null,
    bundle_problem:
      incident.bundle === 'due'
        ? (incident.problem ?? 'not yet written')
        : incident.bundle === 'written'
          ? null
          : incident.bundle,
  });
}

function describeTransaction(transaction: TransactionSummary) {
  const { traceId, firstTimestampNs, lastEndNs, eventCount, errorCount, slowestEventId, services, nodes } = transaction;
  return {
    trace_id: traceId,
    first_timestamp_ns: firstTimestampNs,
    last_end_ns: lastEndNs,
    duration_ns: lastEndNs - firstTimestampNs,
    event_count: eventCount,
    error_count: errorCount,
    slowest_event_id: slowestEventId,
    services: services.slice(0, SERVICES_TOLD_MAX).map((name) => name.slice(0, SERVICE_CHARACTERS_MAX)),
    nodes,
  };
}
