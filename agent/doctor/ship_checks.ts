/** Checks whether this host can ship to its fleet. A host can be recorded without a fleet, so no check here fails. */
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectTls } from 'node:tls';
import { type Connection, connect, QUESTION_MS } from '../clickhouse/connection/connection.ts';
import { readTypedRows } from '../clickhouse/connection/rows.ts';
import { ServerError } from '../clickhouse/connection/server_error.ts';
import {
  type ConnectionSettings,
  createTlsContext,
  parseReplicaUrl,
  type Replica,
} from '../clickhouse/connection/settings.ts';
import { createBlockEncoder } from '../clickhouse/native/encode.ts';
import { parseType } from '../clickhouse/native/types.ts';
import { identifier, sql } from '../clickhouse/statements/sql.ts';
import { readServerVersion, type ServerVersion } from '../clickhouse/tables/server_version.ts';
import { formatCount } from '../output/amounts.ts';
import { UserError } from '../process/errors.ts';
import { askClock, askNode, checkClaim, checkSchema } from '../ship/contact.ts';
import { readPosition, type ShippingPosition } from '../ship/position.ts';
import type { Check } from './check.ts';
import { diagnoseOutage, diagnosePositionAccess, type HostFacts, readRecordingEnd } from './ship_recording.ts';

export interface ShipOptions {
  /** Settings of the connection to the replicas of the shard. */
  server: ConnectionSettings;
  /** Folder that contains the shipping position. */
  folder: string;
}

const ANSWER_MS_MAX = 15_000;
const CLOCK_OFFSET_NS_MAX = 1_000_000_000n;

export async function diagnoseShipping({ server, folder }: ShipOptions, host: HostFacts): Promise<Check[]> {
  const { position, problem } = readPositionOrProblem(folder);
  const [reached, version] = await diagnoseServers(server);
  const checks = [reached, ...(await diagnoseCertificates(server))];
  if (version) {
    const connection = connect(server);
    try {
      checks.push(...(await diagnoseFirstServer(connection, version, { folder, host })));
    } finally {
      connection.close();
    }
  }
  return [...checks, problem ?? diagnosePositionAccess(folder, host), diagnoseOutage(position, host)];
}

function readPositionOrProblem(folder: string): { position?: ShippingPosition | undefined; problem?: Check } {
  try {
    return { position: readPosition(folder) };
  } catch (error) {
    return { problem: { name: 'ship position', ...toWarning(error) } };
  }
}

/** Asks each replica for its version. Returns the version of the first replica that answers. */
async function diagnoseServers(server: ConnectionSettings): Promise<[Check, ServerVersion | undefined]> {
  const answers: string[] = [];
  const problems: string[] = [];
  let version: ServerVersion | undefined;
  for (const url of server.urls) {
    try {
      const found = await readServerVersion({ ...server, urls: [url] });
      answers.push(`${url} answers, ClickHouse ${found.text}`);
      version ??= found;
    } catch (error) {
      problems.push(describeError(error));
    }
  }
  const name = 'ship server';
  const text = [...answers, ...problems].join('; ');
  if (problems.length === 0) return [{ name, state: 'ok', text }, version];
  const advice = version
    ? 'events go to the others meanwhile'
    : 'events stay in the recording, as long as it has room, until a server takes them';
  return [{ name, state: 'warning', text, advice }, version];
}

async function diagnoseFirstServer(
  connection: Connection,
  version: ServerVersion,
  { folder, host }: { folder: string; host: HostFacts },
): Promise<Check[]> {
  const schema = await diagnoseSchema(connection);
  const checks = [diagnoseVersion(version), schema, await diagnoseServerClock(connection, version)];
  if (schema.state !== 'ok') return checks;
  return [...checks, await diagnoseAccount(connection, version), await diagnoseClaim(connection, folder, host)];
}

function diagnoseVersion({ text, isCurrent }: ServerVersion): Check {
  const name = 'ship version';
  if (isCurrent) return { name, state: 'ok', text: `ClickHouse ${text}` };
  const advice = 'use 24.8 or later, which has rights by table, codecs and fsync of inserts';
  return { name, state: 'warning', text: `ClickHouse ${text} is for trials`, advice };
}

async function diagnoseSchema(connection: Connection): Promise<Check> {
  const name = 'ship schema';
  try {
    await checkSchema(connection, AbortSignal.timeout(ANSWER_MS_MAX));
    return { name, state: 'ok', text: `the tables of ${connection.database} fit this kreplay` };
  } catch (error) {
    return { name, ...toWarning(error) };
  }
}

async function diagnoseServerClock(connection: Connection, version: ServerVersion): Promise<Check> {
  const name = 'ship clock';
  try {
    const { offsetNs, uncertaintyNs } = await askClock(connection, version, AbortSignal.timeout(ANSWER_MS_MAX));
    const facts = { offset_seconds: Number(offsetNs) / 1e9, uncertainty_seconds: Number(uncertaintyNs) / 1e9 };
    const amount = `${formatSeconds(offsetNs < 0n ? -offsetNs : offsetNs)} s ${offsetNs < 0n ? 'behind' : 'ahead of'}`;
    const text = `the clock of the server is ${amount} this one, within ${formatSeconds(uncertaintyNs)} s`;
    const sureNs = (offsetNs < 0n ? -offsetNs : offsetNs) - uncertaintyNs;
    if (sureNs <= CLOCK_OFFSET_NS_MAX) return { name, state: 'ok', text, facts };
    const advice = 'events of several nodes are ordered by their clocks: run chrony or systemd-timesyncd on both';
    return { name, state: 'warning', text, advice, facts };
  } catch (error) {
    return { name, ...toWarning(error) };
  }
}

const formatSeconds = (ns: bigint): string => (Number(ns) / 1e9).toFixed(3);

async function diagnoseClaim(connection: Connection, folder: string, { dataFolder }: HostFacts): Promise<Check> {
  const name = 'ship claim';
  const recordingId = readRecordingEnd(dataFolder)?.recordingId;
  if (recordingId === undefined) return { name, state: 'unknown', text: `there is no recording in ${dataFolder} yet` };
  try {
    const known = await askNode(connection, recordingId, AbortSignal.timeout(ANSWER_MS_MAX));
    // A shipper stores each report in its position before it sends the report. So the position is read after the server
    // was asked.
    const { position } = readPositionOrProblem(folder);
    const own = position?.recordingId === recordingId ? position : undefined;
    checkClaim(known, recordingId, own ?? { claim: '' });
    const text =
      own === undefined ? 'nothing of this recording was shipped yet' : 'this recording is shipped from here';
    return { name, state: 'ok', text };
  } catch (error) {
    return { name, ...toWarning(error) };
  }
}

function toWarning(error: unknown): Pick<Check, 'state' | 'text'> {
  return { state: 'warning', text: describeError(error) };
}

function describeError(error: unknown): string {
  if (error instanceof UserError) return error.message;
  if ((error as Error).name === 'TimeoutError') return `no answer within ${ANSWER_MS_MAX / 1000} s`;
  throw error;
}

/* Checks the rights of a shipper's account: it should insert and count events, but not read them. */

const NAME = 'ship account';
const QUESTION = { timeoutMs: QUESTION_MS };

async function diagnoseAccount(connection: Connection, { isCurrent, text: version }: ServerVersion): Promise<Check> {
  const refusal = await captureRefusal(() => insertNothing(connection));
  if (refusal) {
    const advice = `give it the rights of kr_ship: \`kreplay fleet init --accounts\` grants them`;
    return { name: NAME, state: 'warning', text: `cannot insert: ${refusal.message}`, advice };
  }
  const isClosed = (await captureRefusal(() => readNothing(connection))) !== undefined;
  if (isClosed) return await diagnoseCounting(connection);
  const text = 'inserts, and can read the events of all nodes';
  if (isCurrent) return { name: NAME, state: 'warning', text, advice: 'use kr_ship, which cannot' };
  const advice = `${version} knows no rights by table, so it cannot be restricted`;
  return { name: NAME, state: 'warning', text, advice };
}

/** Checks the right to count events. An account whose rights were granted for earlier tables may lack it. */
async function diagnoseCounting(connection: Connection): Promise<Check> {
  const closed = 'inserts, and cannot read events';
  if (!(await captureRefusal(() => countNothing(connection)))) return { name: NAME, state: 'ok', text: closed };
  const text = `${closed}, nor their numbers: what is removed before it arrived may count as lost although it arrived`;
  const advice = 'run `kreplay fleet init --accounts` again, which grants what is new';
  return { name: NAME, state: 'warning', text, advice };
}

async function captureRefusal(work: () => Promise<unknown>): Promise<ServerError | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    if (error instanceof ServerError) return error;
    throw error;
  }
}

/** Inserts a block without rows: the server checks it like any other block, and stores nothing. */
async function insertNothing(connection: Connection): Promise<void> {
  const column = { name: 'number', type: parseType('UInt64'), values: new BigUint64Array(0) };
  const block = createBlockEncoder().encode([column], 0);
  await connection.insert({ table: 'event', columns: [column.name] }, () => [block], QUESTION);
}

async function readNothing(connection: Connection): Promise<void> {
  await readTypedRows(
    connection,
    sql`SELECT service FROM ${identifier('event')} LIMIT 0`,
    { service: 'text' },
    QUESTION,
  );
}

async function countNothing(connection: Connection): Promise<void> {
  await readTypedRows(
    connection,
    sql`SELECT number FROM ${identifier('event')} LIMIT 0`,
    { number: 'number' },
    QUESTION,
  );
}

/* Checks how long the certificates for connections between a shipper and its servers are valid. */

const CONNECT_MS_MAX = 5_000;
const DAYS_MIN = 14;
const MS_A_DAY = 86_400_000;

/**
 * Checks when the certificates expire; returns no check if TLS is not used. Whether a server is trusted is checked
 * elsewhere, by sending it a statement.
 */
async function diagnoseCertificates(settings: ConnectionSettings): Promise<Check[]> {
  const found: { of: string; days: number }[] = [];
  const problems: string[] = [];
  const ends: [string, () => Promise<Date> | Date][] = [
    ...settings.urls
      .map(parseReplicaUrl)
      .filter(({ isTls }) => isTls)
      .map(
        (replica) =>
          [replica.origin, () => readServerCertificateExpiry(replica, settings)] as [string, () => Promise<Date>],
      ),
    ...[settings.tls?.cert, settings.tls?.ca]
      .filter((path) => path !== undefined)
      .map((path) => [path, () => parseCertificateExpiry(readFileSync(path))] as [string, () => Date]),
  ];
  for (const [of, end] of ends) {
    try {
      found.push({ of, days: (Number(await end()) - Date.now()) / MS_A_DAY });
    } catch (error) {
      problems.push(`${of}: ${(error as NodeJS.ErrnoException).code ?? (error as Error).message}`);
    }
  }
  return ends.length === 0 ? [] : [buildCertificateCheck(found, problems)];
}

function buildCertificateCheck(found: readonly { of: string; days: number }[], problems: readonly string[]): Check {
  const name = 'ship certificate';
  const text = [...found.map(({ of, days }) => `${of}: ${formatDaysLeft(days)}`), ...problems].join('; ');
  const soonest = Math.min(...found.map(({ days }) => days));
  const facts = found.length > 0 ? { facts: { days_left: Math.floor(soonest) } } : {};
  if (problems.length > 0) return { name, state: 'warning', text, ...facts };
  if (soonest >= DAYS_MIN) return { name, state: 'ok', text, ...facts };
  return { name, state: 'warning', text, advice: 'renew it: shipping waits when it has expired', ...facts };
}

function formatDaysLeft(days: number): string {
  const whole = Math.floor(days);
  return whole < 0 ? 'has expired' : `${formatCount(whole, 'day')} left`;
}

const parseCertificateExpiry = (pem: Buffer): Date => new Date(new X509Certificate(pem).validTo);

/** Returns when the server's certificate expires, even if the server is not trusted. */
async function readServerCertificateExpiry({ host, port }: Replica, settings: ConnectionSettings): Promise<Date> {
  const secureContext = settings.tls && createTlsContext(settings.tls);
  const socket = connectTls({ host, port, rejectUnauthorized: false, ...(secureContext && { secureContext }) });
  socket.on('error', () => {});
  const timer = setTimeout(() => socket.destroy(new UserError('no answer')), CONNECT_MS_MAX);
  try {
    await once(socket, 'secureConnect');
    return new Date(socket.getPeerCertificate().valid_to);
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}
