/**
 * Watches a recording: examines what arrives, pins what matches, writes its bundle and calls the webhook. Each of these
 * four goes on by itself, from the state on the disk: a receiver that hangs or a disk that is full holds up no pin.
 */
import { setTimeout as sleep, setImmediate as yieldNow } from 'node:timers/promises';
import type { Logger } from 'pino';
import { stringify } from '../base/exact_json.ts';
import { nowNs } from '../base/wall_clock.ts';
import { Interrupted } from '../export/errors.ts';
import type { DropReason, FailedStep, WatchCounters } from '../metrics/watch_counters.ts';
import type { Recordings } from '../store/embedded/recordings.ts';
import type { TransactionSummary } from '../store/store.ts';
import { removeBundle, writeBundle } from './bundles.ts';
import { createExaminer, NUMBERS_A_CHUNK } from './examine.ts';
import type { Rule } from './rules.ts';
import type { DueDelivery, FoundMatch, Incident, MatchLimits, MatchOutcome, WatchState } from './state.ts';
import { computeBackoffMs, type OpenWebhook } from './webhook.ts';

export interface WatcherOptions {
  recordings: Recordings;
  /** The folder that the agent records into, for exports. */
  data: string;
  rules: readonly Rule[];
  state: WatchState;
  webhook: OpenWebhook | undefined;
  /** Length of the period before a transaction that its pin keeps too. */
  beforeNs: bigint;
  /** A bundle is written once its transaction has had no new event for so long. */
  quietMs: number;
  folder: string;
  bundleBytesMax: number;
  bundlesMax: number;
  perMinuteMax: number;
  queueMax: number;
  /** A delivery or a bundle that fails for so long is given up. */
  giveUpMs: number;
  counters: WatchCounters;
  /** Called once nothing that is recorded from now on can be missed. */
  onWatching: () => void;
  log: Logger;
  signal: AbortSignal;
}

const POLL_MS = 200;
const TICK_MS = 100;
/** A position without matches is kept this often; after a kill, what came since is examined again. */
const KEEP_EVERY_MS = 1000;
/** Matches that are kept as one change. */
const BATCH_MAX = 256;
const RETRY_MS_MAX = 60_000;
/** A bundle is written after so long even if its transaction is not quiet, and a delivery waits no longer for a bundle. */
const BUNDLE_WAIT_MS = 60_000;
const DELIVERY_WAIT_MS = 90_000;
/** A written bundle is written again if its transaction goes on: the kernel writes data back for some 30 s. */
const FOLLOWED_MS = 60_000;
const REWRITE_MS_MIN = 5_000;
const REWRITE_MS_MAX = 3_600_000;
const DELIVERIES_AT_ONCE = 4;
const PINS_A_STEP = 64;
const FOLLOWED_A_STEP = 256;
/** Matches that are remembered in memory, so that a transaction that goes on is not examined for them again. */
const SETTLED_MAX = 65_536;
const LOGGED_CHARACTERS_MAX = 200;
const SERVICES_TOLD_MAX = 20;
const SERVICE_CHARACTERS_MAX = 256;

/** Key of the position that says that the first start found no recording. */
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

/** Runs a step again and again: later if there is nothing to do, and ever later while it fails in the same way. */
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

/** Counts failures, and logs the first one of those with the same reason. */
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

/** Without a rule, returns the limits of an alert, of which no match is dropped. */
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

/** Counts and logs what became of a match. */
export function noteOutcomes(
  { counters, log }: Pick<WatcherOptions, 'counters' | 'log'>,
  { rule, transactionId, service }: FoundMatch,
  outcomes: readonly MatchOutcome[],
  countedAs = rule,
): void {
  for (const outcome of outcomes) {
    if (outcome === 'matched') counters.matches.set(countedAs, (counters.matches.get(countedAs) ?? 0) + 1);
    else if (outcome === 'rate' || outcome === 'minute') counters.dropped[outcome satisfies DropReason]++;
  }
  if (outcomes.includes('matched'))
    log.info({ rule, transaction: shorten(transactionId), service: shorten(service) }, 'a transaction matches');
}

/* Examines what arrives. */

function createFollower(options: WatcherOptions): () => Promise<number> {
  const { recordings, rules, state, counters, log, signal } = options;
  const positions = new Map<string, { number: number; kept: number; keptMs: number }>();
  const settled = createSettled();
  const examiner = createExaminer({
    recordings,
    rules,
    isKnown: ({ name }, recordingId, transactionId) =>
      settled.has(name, transactionId) || state.hasMatch(recordingId, transactionId, name),
  });

  function findPosition(recordingId: string, end: number) {
    const known = positions.get(recordingId);
    if (known) return known;
    const stored = state.getPosition(recordingId);
    // The first recording is watched from now on, all others are new.
    const number = Math.min(end, stored ?? (state.hasPosition() ? 0 : end));
    if (stored !== number) state.change(() => state.move(recordingId, number));
    const position = { number, kept: number, keptMs: performance.now() };
    positions.set(recordingId, position);
    return position;
  }

  function keep(found: readonly { rule: Rule; found: FoundMatch }[], recordingId: string, number?: number): void {
    const nowMs = Date.now();
    const outcomes = state.change(() => {
      const all = found.map((one) => state.add(one.found, buildLimits(options, one.rule), nowMs));
      if (number !== undefined) state.move(recordingId, number);
      state.forget(nowMs);
      return all;
    });
    for (const [i, one] of found.entries()) {
      settled.add(one.rule.name, one.found.transactionId);
      noteOutcomes(options, one.found, outcomes[i]!);
    }
  }

  /** Keeps matches. If the state cannot be written, they are pinned at least, and found again later. */
  async function keepOrPin(...[found, recordingId, number]: Parameters<typeof keep>): Promise<void> {
    try {
      keep(found, recordingId, number);
    } catch (error) {
      for (const { transactionId } of found.slice(0, PINS_A_STEP).map((one) => one.found))
        await pin(options, transactionId).catch(() => {});
      throw error;
    }
  }

  async function examineChunk(recordingId: string, end: number): Promise<void> {
    const position = findPosition(recordingId, end);
    const { number } = position;
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
    const isDue = performance.now() - position.keptMs >= KEEP_EVERY_MS;
    if (found.length > 0 || isDue || isLong) {
      await keepOrPin(found, recordingId, chunkEnd);
      position.keptMs = performance.now();
    }
    position.number = chunkEnd;
    // A chunk that failed is examined again, and counted only then.
    noteMissed(options, missed);
    counters.behindEvents = end - chunkEnd;
  }

  let isWatching = false;
  return async () => {
    let isBehind = false;
    let counted = 0;
    for (const { recordingId, end } of listRecordings(options)) {
      counted++;
      await examineChunk(recordingId, end);
      isBehind ||= positions.get(recordingId)!.number < end;
    }
    if (!isWatching && counted === 0)
      log.warn({ folder: options.data }, 'there is no recording yet: its agent makes one');
    if (!isWatching) options.onWatching();
    isWatching = true;
    return isBehind ? 0 : POLL_MS;
  };
}

/** Returns the recordings that an agent writes: none if there is no recording yet. */
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
  counters.missedEvents += events;
  log.error({ events }, 'retention has removed events before they were examined');
}

/** Remembers pairs of a rule and a transaction, the latest ones. */
function createSettled() {
  const known = new Set<string>();
  const name = (rule: string, transactionId: string) => `${rule} ${transactionId}`;
  return {
    has: (rule: string, transactionId: string) => known.has(name(rule, transactionId)),
    add(rule: string, transactionId: string): void {
      known.add(name(rule, transactionId));
      if (known.size > SETTLED_MAX) known.delete(known.keys().next().value!);
    },
  };
}

/* Pins transactions. A pin is kept in the recording, where a second one changes nothing. */

/** Resolves to false if the recording does not have the transaction. */
async function pin({ recordings, beforeNs }: WatcherOptions, transactionId: string): Promise<boolean> {
  return (await recordings.pin({ transactionId, beforeNs, nowNs: nowNs() })) !== undefined;
}

function createPinner(options: WatcherOptions): () => Promise<number> {
  const { state, counters, log, signal } = options;
  const notes = createFailureNotes(options, 'pin');
  /** The newest incident that was tried: those after it wait for nothing, however many others cannot be pinned. */
  let newest = 0;
  /** The last incident that was tried again in this pass over those that could not be pinned. */
  let after = 0;
  let [hasFailed, failures, passMs] = [false, 0, 0];

  async function pinOne({ incidentId, transactionId }: Incident): Promise<void> {
    const isPinned = await pin(options, transactionId);
    state.setPin(incidentId, isPinned ? 'set' : 'gone');
    if (isPinned) counters.pinned++;
    else {
      counters.gone++;
      log.error({ transaction: shorten(transactionId) }, 'a transaction was removed before it was pinned');
    }
  }

  /** One that cannot be pinned, as it would take too much of the recording, holds up no smaller one. */
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

  /** Tries some of those again that could not be pinned; the next pass over them begins ever later while one fails. */
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

/** What is known of a transaction that is followed. Nothing of that is needed after a restart. */
interface Progress {
  events: number;
  quietSinceMs: number;
  checkMs: number;
  /** Time of the next attempt, and what it is delayed by. */
  writeMs: number;
  failures: number;
  rewrites: number;
}

function createBundler(options: WatcherOptions): () => Promise<number> {
  const { recordings, state, quietMs, giveUpMs, log, signal } = options;
  /** The last incident that was looked at. */
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
    const transaction = recordings.findTransaction(incident.transactionId);
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
    log.error({ transaction: shorten(transactionId) }, 'a bundle is given up; its transaction stays pinned');
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

/** The time since the match by the wall clock, which may have been set back. */
function getAgeMs({ matchedMs }: Pick<Incident, 'matchedMs'>): number {
  return Math.abs(Date.now() - matchedMs);
}

function isChanged({ bundle, bundleEvents }: Incident, { events }: Progress): boolean {
  return bundle === 'written' && bundleEvents !== events;
}

async function write(options: WatcherOptions, incident: Incident, progress: Progress): Promise<void> {
  const { data, folder, bundleBytesMax: bytesMax, state, counters, log, signal } = options;
  const { incidentId, transactionId, recordingId } = incident;
  const { events } = progress;
  try {
    const result = await writeBundle({ data, recordingId, transactionId, folder, bytesMax, signal });
    if (result.kind === 'written') {
      state.setWritten(incidentId, result.file, result.bytes, events, Date.now());
      counters.bundlesWritten++;
      makeRoom(options, incidentId);
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

/** Removes the oldest bundles beyond the limits; the newest one stays. */
function makeRoom({ state, folder, bundleBytesMax, bundlesMax, counters, log }: WatcherOptions, except: number): void {
  for (;;) {
    const { bundles, bundleBytes } = state.count();
    if (bundles <= bundlesMax && bundleBytes <= bundleBytesMax) return;
    const oldest = state.findOldestWritten(except);
    if (!oldest) return;
    if (oldest.file !== null) removeBundle(folder, oldest.file);
    state.setBundle(oldest.incidentId, 'removed');
    counters.bundlesRemoved++;
    log.info({ file: oldest.file }, 'the oldest bundle makes room; its transaction stays pinned');
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
    // What was sent while the process ends is sent again, with the same id.
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
    log.error({ delivery: id, webhook: hook.origin }, 'a delivery is given up; its transaction stays pinned');
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

/** Builds what the receiver gets. */
function buildBody({ recordings, state, folder }: WatcherOptions, delivery: DueDelivery): string {
  const { deliveryId, rule, transactionId, service, atNs, held, incidentId } = delivery;
  const incident = state.getIncident(incidentId)!;
  const transaction = recordings.findTransaction(transactionId);
  return stringify({
    version: 1,
    id: deliveryId,
    rule,
    service,
    matched_at_ns: atNs,
    held_back: held,
    pinned: incident.pin === 'set',
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
