/**
 * The state that `kreplay watch` continues from after a kill: how far each recording was examined, the matches, and the
 * work left for each match. It is a SQLite database. Each change is one database transaction that survives a power
 * failure.
 */
import { createHash } from 'node:crypto';
import { closeSync, constants, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { UserError } from '../../agent/process/errors.ts';
import type { MatchRate } from './rules.ts';

/** Spells "KRwa". */
const APPLICATION_ID = 0x4b52_7761;
const VERSION = 1;
export const STATE_FILE = 'watch.sqlite';
/** Lock timeout, long enough for a previous watcher that is being killed to release the file. */
const LOCKED_MS_MAX = 2000;
/** Number of incidents above which the oldest incidents are deleted. Incidents with a bundle or with work left stay. */
const INCIDENTS_MAX = 100_000;
/**
 * Size in pages at which SQLite empties the write-ahead log. The default is 4 MB, too much for a disk that is nearly
 * full.
 */
const LOG_PAGES_MAX = 64;
/**
 * Maximum wait for the next attempt of a delivery. An attempt planned later than that is made at once, because the
 * clock must have been set back.
 */
const WAIT_MS_MAX = 600_000;
/** Age from which an incident may be deleted while its pin is still due: younger incidents wait for their pin. */
const PIN_WAIT_MS_MAX = 86_400_000;
const FORGOTTEN_AT_ONCE = 1000;
/** Maximum numbers of stored alerts and cool-downs; the oldest ones are deleted. */
const ALERTS_MAX = 10_000;
const COOL_DOWNS_MAX = 10_000;

export class WatchStateError extends UserError {
  override readonly name = 'WatchStateError';
}

/** A transaction that a rule or an alert has found. */
export interface FoundMatch {
  rule: string;
  transactionId: string;
  recordingId: string;
  /** The service to which the rule's cool-down applies; empty if no service is known. */
  service: string;
  /** Time at which the transaction met the rule, by the recording's clock. */
  atNs: bigint;
}

export interface MatchLimits {
  atLeast?: MatchRate | undefined;
  atMost?: MatchRate | undefined;
  coolDownNs: bigint;
  /**
   * Maximum number of matches of all rules within a minute of recorded time; undefined for alerts, which have other
   * limits.
   */
  perMinuteMax: number | undefined;
  /** Maximum number of deliveries that wait; 0 if there is no webhook. */
  queueMax: number;
}

export type MatchOutcome = 'matched' | 'known' | 'counted' | 'rate' | 'minute';

/** A match, and the outcome of adding it to the state. */
export interface AddedMatch {
  found: FoundMatch;
  outcome: MatchOutcome;
}

export type PinState = 'due' | 'set' | 'gone';
export type BundleState = 'due' | 'written' | 'removed' | 'too_large' | 'gone' | 'failed';

/** A matched transaction, and the state of its pin and its bundle. */
export interface Incident {
  incidentId: number;
  transactionId: string;
  recordingId: string;
  matchedMs: number;
  pin: PinState;
  bundle: BundleState;
  /** Name of the bundle's file in the folder; null until a bundle is written. */
  file: string | null;
  bundleBytes: number;
  /** Number of events that the transaction had when its bundle was written. */
  bundleEvents: number;
  /** Why the last attempt to write the bundle failed; null if it did not fail. */
  problem: string | null;
  /** 1 while the bundle is due, or must be written again if the transaction gets more events; otherwise 0. */
  followed: number;
}

export interface DueDelivery extends Omit<FoundMatch, 'recordingId'> {
  deliveryId: string;
  incidentId: number;
  attempts: number;
  matchedMs: number;
  /** Number of matches whose delivery the cool-down of the rule and service has prevented since the last delivery. */
  held: number;
}

export interface WatchCounts {
  incidents: number;
  pinsDue: number;
  bundlesDue: number;
  bundles: number;
  bundleBytes: number;
  deliveriesDue: number;
}

/** A match that `at-least` counts. */
interface Candidate extends Omit<FoundMatch, 'rule'> {
  /** 1 if a limit has dropped the match. */
  dropped: bigint;
}

const TABLES = `
CREATE TABLE IF NOT EXISTS position (recording_id TEXT NOT NULL PRIMARY KEY, number INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS incident (
  incident_id INTEGER PRIMARY KEY,
  recording_id TEXT NOT NULL,
  transaction_id TEXT NOT NULL,
  matched_ms INTEGER NOT NULL,
  pin TEXT NOT NULL DEFAULT 'due',
  bundle TEXT NOT NULL DEFAULT 'due',
  file TEXT,
  bundle_bytes INTEGER NOT NULL DEFAULT 0,
  bundle_events INTEGER NOT NULL DEFAULT 0,
  written_ms INTEGER,
  problem TEXT,
  followed INTEGER NOT NULL DEFAULT 1,
  is_over INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX IF NOT EXISTS incident_transaction ON incident (transaction_id, recording_id);
CREATE INDEX IF NOT EXISTS incident_followed ON incident (followed) WHERE followed = 1;
CREATE INDEX IF NOT EXISTS incident_unpinned ON incident (pin) WHERE pin = 'due';
CREATE INDEX IF NOT EXISTS incident_written ON incident (written_ms) WHERE bundle = 'written';
CREATE TABLE IF NOT EXISTS rule_match (
  rule TEXT NOT NULL,
  incident_id INTEGER NOT NULL REFERENCES incident ON DELETE CASCADE,
  service TEXT NOT NULL,
  at_ns INTEGER NOT NULL,
  matched_ms INTEGER NOT NULL,
  delivery_id TEXT NOT NULL,
  delivery TEXT NOT NULL,
  held INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_ms INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (incident_id, rule)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS match_time ON rule_match (at_ns);
CREATE INDEX IF NOT EXISTS match_rule_time ON rule_match (rule, at_ns);
CREATE INDEX IF NOT EXISTS match_due ON rule_match (next_ms) WHERE delivery = 'due';
CREATE TABLE IF NOT EXISTS candidate (
  rule TEXT NOT NULL,
  recording_id TEXT NOT NULL,
  transaction_id TEXT NOT NULL,
  service TEXT NOT NULL,
  at_ns INTEGER NOT NULL,
  dropped INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (rule, transaction_id, recording_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS candidate_time ON candidate (rule, at_ns);
CREATE TABLE IF NOT EXISTS alert (key TEXT NOT NULL PRIMARY KEY, taken_ms INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS cool_down (
  rule TEXT NOT NULL,
  service TEXT NOT NULL,
  at_ns INTEGER NOT NULL,
  held INTEGER NOT NULL,
  PRIMARY KEY (rule, service)
) STRICT, WITHOUT ROWID;`;

const INCIDENT = `
SELECT incident_id AS incidentId, transaction_id AS transactionId, recording_id AS recordingId, matched_ms AS matchedMs,
  pin, bundle, file, bundle_bytes AS bundleBytes, bundle_events AS bundleEvents, problem, followed
FROM incident`;

const OF_TRANSACTION = 'transaction_id = :transactionId AND recording_id = :recordingId';

const COUNTS = `
SELECT
  (SELECT count(*) FROM incident) AS incidents,
  (SELECT count(*) FROM incident WHERE pin = 'due') AS pinsDue,
  (SELECT count(*) FROM incident WHERE followed = 1 AND bundle = 'due') AS bundlesDue,
  (SELECT count(*) FROM incident WHERE bundle = 'written') AS bundles,
  (SELECT coalesce(sum(bundle_bytes), 0) FROM incident WHERE bundle = 'written') AS bundleBytes,
  (SELECT count(*) FROM rule_match WHERE delivery = 'due') AS deliveriesDue`;

const MINUTE_NS = 60_000_000_000n;

export type WatchState = ReturnType<typeof prepareState>;

/** Opens the state file in a folder and locks it until `close`. Throws a WatchStateError with advice for the user. */
export function openWatchState(folder: string): WatchState {
  const path = join(folder, STATE_FILE);
  let database: Database.Database | undefined;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o750 });
    // SQLite would create the file world-readable.
    closeSync(openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600));
    database = new Database(path, { timeout: LOCKED_MS_MAX });
    prepareTables(database, path);
    return prepareState(database);
  } catch (error) {
    database?.close();
    throw toStateError(error, path);
  }
}

function prepareTables(database: Database.Database, path: string): void {
  // EXCLUSIVE keeps out a second watcher, which would repeat every delivery.
  database.pragma('locking_mode = EXCLUSIVE');
  const tables = database.prepare<[], number>('SELECT count(*) FROM sqlite_schema').pluck().get()!;
  const version = database.pragma('user_version', { simple: true }) as number;
  const isNew = tables === 0 && version === 0;
  if (!isNew && database.pragma('application_id', { simple: true }) !== APPLICATION_ID)
    throw new WatchStateError(`${path} is a database of something else: give another folder with --state`);
  if (version > VERSION)
    throw new WatchStateError(
      `${path} was written by a newer kreplay: use that one, or give another folder with --state`,
    );
  const faults = database.pragma('quick_check(1)', { simple: true });
  if (faults !== 'ok') throw createDamagedError(path, String(faults).split('\n').at(-1)!);
  database.pragma('journal_mode = WAL');
  // FULL syncs every commit, so that a power failure loses no match and no record of a sent delivery.
  database.pragma('synchronous = FULL');
  database.pragma(`wal_autocheckpoint = ${LOG_PAGES_MAX}`);
  database.pragma('foreign_keys = ON');
  database.transaction(() => {
    database.pragma(`application_id = ${APPLICATION_ID}`);
    database.pragma(`user_version = ${VERSION}`);
    database.exec(TABLES);
  })();
}

function createDamagedError(path: string, what: string): WatchStateError {
  return new WatchStateError(
    `${path} is damaged (${what}): move it away and start again; pins and bundles stay, and what was recorded meanwhile is not examined`,
  );
}

function toStateError(error: unknown, path: string): unknown {
  const { code, message } = error as { code?: unknown; message: string };
  if (error instanceof WatchStateError || typeof code !== 'string') return error;
  if (/^SQLITE_(BUSY|LOCKED)/.test(code))
    return new WatchStateError(
      `another kreplay watch uses ${path}: stop it, or give this one a folder of its own with --state`,
    );
  if (/^SQLITE_(NOTADB|CORRUPT|ERROR|CONSTRAINT)/.test(code)) return createDamagedError(path, message);
  if (/^SQLITE_FULL|^ENOSPC|^EDQUOT/.test(code))
    return new WatchStateError(`no space is left for ${path}: free some, or give another folder with --state`);
  return new WatchStateError(
    `${path} cannot be used (${message}): check its folder, owner and mode, or give another with --state`,
  );
}

/**
 * Builds the id of a match's delivery from the match alone. All attempts therefore have the same id, even if the state
 * file was lost in between. If an earlier match of the transaction is over, the time `againMs` makes the id a new one.
 */
export function buildDeliveryId(
  { recordingId, rule, transactionId }: Pick<FoundMatch, 'recordingId' | 'rule' | 'transactionId'>,
  againMs?: number,
): string {
  return createHash('sha256')
    .update(JSON.stringify([recordingId, rule, transactionId, againMs]))
    .digest('hex')
    .slice(0, 32);
}

function prepareState(database: Database.Database) {
  const prepare = <Row>(sql: string) => database.prepare<[Record<string, unknown>], Row>(sql);
  const sql = {
    position: prepare<number>('SELECT number FROM position WHERE recording_id = :recordingId').pluck(),
    anyPosition: prepare<number>('SELECT count(*) FROM position').pluck(),
    positions: prepare<{ recordingId: string; number: number }>(
      'SELECT recording_id AS recordingId, number FROM position',
    ),
    dropPosition: prepare('DELETE FROM position WHERE recording_id = :recordingId'),
    move: prepare(`INSERT INTO position VALUES (:recordingId, :number)
      ON CONFLICT (recording_id) DO UPDATE SET number = excluded.number`),
    incident: prepare<Incident>(`${INCIDENT} WHERE ${OF_TRANSACTION} AND is_over = 0`),
    overCount: prepare<number>(`SELECT count(*) FROM incident WHERE ${OF_TRANSACTION} AND is_over = 1`).pluck(),
    end: prepare('UPDATE incident SET is_over = 1 WHERE incident_id = :incidentId'),
    incidentById: prepare<Incident>(`${INCIDENT} WHERE incident_id = :incidentId`),
    addIncident: prepare(`INSERT INTO incident (recording_id, transaction_id, matched_ms)
      VALUES (:recordingId, :transactionId, :nowMs)`),
    match: prepare<number>('SELECT 1 FROM rule_match WHERE incident_id = :incidentId AND rule = :rule').pluck(),
    addMatch:
      prepare(`INSERT INTO rule_match (rule, incident_id, service, at_ns, matched_ms, delivery_id, delivery, held)
      VALUES (:rule, :incidentId, :service, :atNs, :nowMs, :deliveryId, :delivery, :held)`),
    ruleMatches: prepare<number>(
      'SELECT count(*) FROM rule_match WHERE rule = :rule AND at_ns > :atNs - :withinNs AND at_ns < :atNs + :withinNs',
    ).pluck(),
    // Leaves out alerts, whose names contain a colon. Names of rules contain no colon.
    allMatches: prepare<number>(`
      SELECT count(*) FROM rule_match
      WHERE at_ns > :atNs - :withinNs AND at_ns < :atNs + :withinNs AND instr(rule, ':') = 0`).pluck(),
    // A candidate counts once within the rate's time. If its id is used again later, the candidate counts again.
    addCandidate: prepare(`INSERT INTO candidate (rule, recording_id, transaction_id, service, at_ns)
      VALUES (:rule, :recordingId, :transactionId, :service, :atNs)
      ON CONFLICT DO UPDATE SET service = excluded.service, at_ns = excluded.at_ns, dropped = 0
      WHERE abs(at_ns - excluded.at_ns) >= :withinNs`),
    dropCandidate: prepare(`UPDATE candidate SET dropped = 1
      WHERE rule = :rule AND transaction_id = :transactionId AND recording_id = :recordingId`),
    candidates: prepare<Candidate>(`
      SELECT recording_id AS recordingId, transaction_id AS transactionId, service, at_ns AS atNs, dropped FROM candidate
      WHERE rule = :rule AND at_ns > :atNs - :withinNs AND at_ns < :atNs + :withinNs ORDER BY at_ns`).safeIntegers(),
    dropCandidates: prepare(`DELETE FROM candidate WHERE rule = :rule AND at_ns < (
      SELECT at_ns FROM candidate WHERE rule = :rule ORDER BY at_ns DESC LIMIT 1 OFFSET :count)`),
    coolDown: prepare<{ atNs: bigint; held: bigint }>(
      'SELECT at_ns AS atNs, held FROM cool_down WHERE rule = :rule AND service = :service',
    ).safeIntegers(),
    setCoolDown: prepare(`INSERT INTO cool_down VALUES (:rule, :service, :atNs, :held)
      ON CONFLICT (rule, service) DO UPDATE SET at_ns = excluded.at_ns, held = excluded.held`),
    alert: prepare<number>('SELECT 1 FROM alert WHERE key = :key').pluck(),
    addAlert: prepare('INSERT INTO alert VALUES (:key, :nowMs) ON CONFLICT DO NOTHING'),
    dropAlerts: prepare(`DELETE FROM alert WHERE rowid <= (SELECT max(rowid) FROM alert) - ${ALERTS_MAX}`),
    dropCoolDowns: prepare(`DELETE FROM cool_down WHERE at_ns <
      (SELECT at_ns FROM cool_down ORDER BY at_ns DESC LIMIT 1 OFFSET ${COOL_DOWNS_MAX})`),
    dueCount: prepare<number>("SELECT count(*) FROM rule_match WHERE delivery = 'due'").pluck(),
    unpinned: prepare<Incident>(
      `${INCIDENT} WHERE pin = 'due' AND incident_id > :after ORDER BY incident_id LIMIT :limit`,
    ),
    setPin: prepare('UPDATE incident SET pin = :pin WHERE incident_id = :incidentId'),
    followed: prepare<Incident>(
      `${INCIDENT} WHERE followed = 1 AND incident_id > :after ORDER BY incident_id LIMIT :limit`,
    ),
    setWritten: prepare(`UPDATE incident SET bundle = 'written', file = :file, bundle_bytes = :bytes,
      bundle_events = :events, written_ms = :nowMs, problem = NULL WHERE incident_id = :incidentId`),
    setProblem: prepare('UPDATE incident SET problem = :problem WHERE incident_id = :incidentId'),
    setBundle: prepare('UPDATE incident SET bundle = :bundle, bundle_bytes = 0 WHERE incident_id = :incidentId'),
    leave: prepare('UPDATE incident SET followed = 0 WHERE incident_id = :incidentId'),
    oldestWritten: prepare<Incident>(
      `${INCIDENT} WHERE bundle = 'written' AND incident_id <> :except ORDER BY written_ms LIMIT 1`,
    ),
    due: prepare<Omit<DueDelivery, 'atNs'> & { atNs: bigint }>(`
      SELECT delivery_id AS deliveryId, incident_id AS incidentId, transaction_id AS transactionId, rule, service,
        rule_match.at_ns AS atNs, rule_match.matched_ms AS matchedMs, attempts, held
      FROM rule_match JOIN incident USING (incident_id)
      WHERE delivery = 'due' AND (next_ms <= :nowMs OR next_ms > :nowMs + ${WAIT_MS_MAX})
        AND (pin <> 'due' AND (bundle <> 'due' OR problem IS NOT NULL) OR incident.matched_ms < :patientMs)
      ORDER BY next_ms LIMIT :limit`).safeIntegers(),
    setDelivery: prepare(`UPDATE rule_match SET delivery = :delivery, attempts = attempts + 1, next_ms = :nextMs
      WHERE incident_id = :incidentId AND rule = :rule`),
    counts: prepare<WatchCounts>(COUNTS),
    incidentCount: prepare<number>('SELECT count(*) FROM incident').pluck(),
    forget: prepare(`DELETE FROM incident WHERE incident_id IN (
      SELECT incident_id FROM incident
      WHERE followed = 0 AND (pin <> 'due' OR matched_ms < :oldMs) AND bundle <> 'written'
        AND NOT EXISTS (SELECT 1 FROM rule_match WHERE rule_match.incident_id = incident.incident_id AND delivery = 'due')
      ORDER BY incident_id LIMIT ${FORGOTTEN_AT_ONCE})`),
  };

  /**
   * Adds a match unless it is known or exceeds a limit. A cool-down prevents only the delivery, not the pin and the
   * bundle.
   */
  function addMatch(found: FoundMatch, limits: MatchLimits, nowMs: number): MatchOutcome {
    const { rule, service, atNs } = found;
    const known = sql.incident.get({ ...found });
    if (known && sql.match.get({ incidentId: known.incidentId, rule }) !== undefined) return 'known';
    const { atMost, perMinuteMax } = limits;
    if (atMost && sql.ruleMatches.get({ rule, atNs, withinNs: atMost.withinNs })! >= atMost.count) return 'rate';
    if (perMinuteMax !== undefined && sql.allMatches.get({ atNs, withinNs: MINUTE_NS })! >= perMinuteMax)
      return 'minute';
    if (!known) sql.addIncident.run({ ...found, nowMs });
    const { incidentId } = known ?? sql.incident.get({ ...found })!;
    const { delivery, held } = chooseDelivery(found, limits);
    const deliveryId = buildDeliveryId(found, sql.overCount.get({ ...found })! > 0 ? nowMs : undefined);
    sql.addMatch.run({ rule, incidentId, service, atNs, nowMs, deliveryId, delivery, held });
    return 'matched';
  }

  function chooseDelivery({ rule, service, atNs }: FoundMatch, { coolDownNs, queueMax }: MatchLimits) {
    if (queueMax === 0) return { delivery: 'none', held: 0 };
    const last = sql.coolDown.get({ rule, service });
    // The difference is absolute, because the recording's clock may have been set back since the last delivery.
    const sinceNs = last === undefined ? coolDownNs : atNs > last.atNs ? atNs - last.atNs : last.atNs - atNs;
    if (last && sinceNs < coolDownNs) {
      sql.setCoolDown.run({ rule, service, atNs: last.atNs, held: last.held + 1n });
      return { delivery: 'held', held: 0 };
    }
    if (sql.dueCount.get({})! >= queueMax) return { delivery: 'dropped', held: 0 };
    if (coolDownNs > 0n) sql.setCoolDown.run({ rule, service, atNs, held: 0 });
    return { delivery: 'due', held: Number(last?.held ?? 0n) };
  }

  /**
   * Adds a match. For a rule with `at-least`, only counts the match until the rate is reached; then adds all counted
   * matches, and returns what became of each of them.
   */
  function add(found: FoundMatch, limits: MatchLimits, nowMs: number): AddedMatch[] {
    const { atLeast } = limits;
    if (!atLeast) return [{ found, outcome: addMatch(found, limits, nowMs) }];
    const { rule, atNs } = found;
    const { count, withinNs } = atLeast;
    sql.addCandidate.run({ ...found, withinNs });
    sql.dropCandidates.run({ rule, count });
    const counted = sql.candidates.all({ rule, atNs, withinNs });
    const others = counted.length < count ? [] : counted.filter(({ dropped }) => dropped === 0n);
    if (others.length === 0) return [{ found, outcome: 'counted' }];
    return others.map(({ dropped: _, ...one }) => {
      const match = { rule, ...one };
      return { found: match, outcome: addCounted(match, limits, nowMs) };
    });
  }

  /**
   * Adds a match that `at-least` has counted. A match dropped by a limit stays dropped, but still counts towards the
   * rate.
   */
  function addCounted(found: FoundMatch, limits: MatchLimits, nowMs: number): MatchOutcome {
    const outcome = addMatch(found, limits, nowMs);
    if (outcome === 'rate' || outcome === 'minute') sql.dropCandidate.run({ ...found });
    return outcome;
  }

  const runAll = database.transaction(<Result>(work: () => Result): Result => work());

  return {
    /** Runs changes in one database transaction: either all changes survive a kill, or no change does. */
    change: <Result>(work: () => Result): Result => runAll.immediate(work) as Result,
    getPosition: (recordingId: string): number | undefined => sql.position.get({ recordingId }),
    /** Whether the position of any recording is stored, which means that a watcher has run before. */
    hasPosition: (): boolean => sql.anyPosition.get({})! > 0,
    move: (recordingId: string, number: number): void => void sql.move.run({ recordingId, number }),
    listPositions: (): { recordingId: string; number: number }[] => sql.positions.all({}),
    dropPosition: (recordingId: string): void => void sql.dropPosition.run({ recordingId }),
    add,
    /** Finds the incident of a transaction, unless the incident is over. */
    findIncident: (recordingId: string, transactionId: string): Incident | undefined =>
      sql.incident.get({ recordingId, transactionId }),
    /** Ends an incident: the next match of its transaction begins another one. */
    end: (incidentId: number): void => void sql.end.run({ incidentId }),
    getIncident: (incidentId: number): Incident | undefined => sql.incidentById.get({ incidentId }),
    hasMatch(recordingId: string, transactionId: string, rule: string): boolean {
      const known = sql.incident.get({ recordingId, transactionId });
      return known !== undefined && sql.match.get({ incidentId: known.incidentId, rule }) !== undefined;
    },
    /** Lists incidents with an id above `after` whose pin is due. */
    listUnpinned: (after: number, limit: number): Incident[] => sql.unpinned.all({ after, limit }),
    setPin: (incidentId: number, pin: PinState): void => void sql.setPin.run({ incidentId, pin }),
    /**
     * Lists incidents with an id above `after` whose bundle is due, or must be written again if the transaction gets
     * more events.
     */
    listFollowed: (after: number, limit: number): Incident[] => sql.followed.all({ after, limit }),
    setWritten: (incidentId: number, file: string, bytes: number, events: number, nowMs: number): void =>
      void sql.setWritten.run({ incidentId, file, bytes, events, nowMs }),
    setProblem: (incidentId: number, problem: string): void => void sql.setProblem.run({ incidentId, problem }),
    setBundle: (incidentId: number, bundle: BundleState): void => void sql.setBundle.run({ incidentId, bundle }),
    leave: (incidentId: number): void => void sql.leave.run({ incidentId }),
    findOldestWritten: (except: number): Incident | undefined => sql.oldestWritten.get({ except }),
    /**
     * Lists deliveries to attempt now: neither the pin nor the bundle is due any more, unless an attempt to write the
     * bundle has failed, or the transaction matched before the time `patientMs`.
     */
    listDue(nowMs: number, patientMs: number, limit: number): DueDelivery[] {
      return sql.due.all({ nowMs, patientMs, limit }).map((row) => ({
        ...row,
        incidentId: Number(row.incidentId),
        matchedMs: Number(row.matchedMs),
        attempts: Number(row.attempts),
        held: Number(row.held),
      }));
    },
    setDelivery: (
      { incidentId, rule }: Pick<DueDelivery, 'incidentId' | 'rule'>,
      delivery: 'due' | 'done' | 'given_up',
      nextMs = 0,
    ): void => void sql.setDelivery.run({ incidentId, rule, delivery, nextMs }),
    /** Whether an alert with this key was handled before. */
    hasAlert: (key: string): boolean => sql.alert.get({ key }) !== undefined,
    addAlert(key: string, nowMs: number): void {
      sql.addAlert.run({ key, nowMs });
      sql.dropAlerts.run({});
    },
    count: (): WatchCounts => sql.counts.get({})!,
    /** Deletes the oldest cool-downs and the oldest incidents without work left, if there are too many. */
    forget(nowMs: number, incidentsMax = INCIDENTS_MAX): void {
      if (sql.incidentCount.get({})! > incidentsMax) sql.forget.run({ oldMs: nowMs - PIN_WAIT_MS_MAX });
      sql.dropCoolDowns.run({});
    },
    close: (): void => void database.close(),
  };
}
