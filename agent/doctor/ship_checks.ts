/** Checks whether what this host records can get to its fleet. A host without one can be recorded: none of these fails. */
import { type Connection, connect } from '../clickhouse/connection/connection.ts';
import type { ConnectionSettings } from '../clickhouse/connection/settings.ts';
import { type ServerVersion, versionAt } from '../clickhouse/tables/server_version.ts';
import { UserError } from '../process/errors.ts';
import { askClock, askNode, checkClaim, checkSchema } from '../ship/contact.ts';
import { type Position, readPosition } from '../ship/position.ts';
import type { Check } from './check.ts';
import { account } from './ship_account.ts';
import { certificates } from './ship_certificates.ts';
import { type HostFacts, outage, positionAccess, recordedIn } from './ship_recording.ts';

export interface ShipOptions {
  /** Replicas of the shard. */
  server: ConnectionSettings;
  /** Folder of the position. */
  folder: string;
}

const ANSWER_MS_MAX = 15_000;
const CLOCK_OFFSET_NS_MAX = 1_000_000_000n;

export async function shipChecks({ server, folder }: ShipOptions, host: HostFacts): Promise<Check[]> {
  const { position, problem } = positionIn(folder);
  const [reached, version] = await servers(server);
  const checks = [reached, ...(await certificates(server))];
  if (version) {
    const connection = connect(server);
    try {
      checks.push(...(await serverChecks(connection, version, { folder, host })));
    } finally {
      connection.close();
    }
  }
  return [...checks, problem ?? positionAccess(folder, host), outage(position, host)];
}

function positionIn(folder: string): { position?: Position | undefined; problem?: Check } {
  try {
    return { position: readPosition(folder) };
  } catch (error) {
    return { problem: { name: 'ship position', ...warningOf(error) } };
  }
}

/** Asks each replica; the version is that of the first one that answers. */
async function servers(server: ConnectionSettings): Promise<[Check, ServerVersion | undefined]> {
  const answers: string[] = [];
  const problems: string[] = [];
  let version: ServerVersion | undefined;
  for (const url of server.urls) {
    try {
      const found = await versionAt({ ...server, urls: [url] });
      answers.push(`${url} answers, ClickHouse ${found.text}`);
      version ??= found;
    } catch (error) {
      problems.push(messageOf(error));
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

async function serverChecks(
  connection: Connection,
  version: ServerVersion,
  { folder, host }: { folder: string; host: HostFacts },
): Promise<Check[]> {
  const schema = await schemaCheck(connection);
  const checks = [versionCheck(version), schema, await clockCheck(connection, version)];
  if (schema.state !== 'ok') return checks;
  return [...checks, await account(connection, version), await claimCheck(connection, folder, host)];
}

function versionCheck({ text, isCurrent }: ServerVersion): Check {
  const name = 'ship version';
  if (isCurrent) return { name, state: 'ok', text: `ClickHouse ${text}` };
  const advice = 'use 24.8 or later, which has rights by table, codecs and fsync of inserts';
  return { name, state: 'warning', text: `ClickHouse ${text} is for trials`, advice };
}

async function schemaCheck(connection: Connection): Promise<Check> {
  const name = 'ship schema';
  try {
    await checkSchema(connection, AbortSignal.timeout(ANSWER_MS_MAX));
    return { name, state: 'ok', text: `the tables of ${connection.database} fit this kreplay` };
  } catch (error) {
    return { name, ...warningOf(error) };
  }
}

async function clockCheck(connection: Connection, version: ServerVersion): Promise<Check> {
  const name = 'ship clock';
  try {
    const { offsetNs, uncertaintyNs } = await askClock(connection, version, AbortSignal.timeout(ANSWER_MS_MAX));
    const facts = { offset_seconds: Number(offsetNs) / 1e9, uncertainty_seconds: Number(uncertaintyNs) / 1e9 };
    const amount = `${seconds(offsetNs < 0n ? -offsetNs : offsetNs)} s ${offsetNs < 0n ? 'behind' : 'ahead of'}`;
    const text = `the clock of the server is ${amount} this one, within ${seconds(uncertaintyNs)} s`;
    const sureNs = (offsetNs < 0n ? -offsetNs : offsetNs) - uncertaintyNs;
    if (sureNs <= CLOCK_OFFSET_NS_MAX) return { name, state: 'ok', text, facts };
    const advice = 'events of several nodes are ordered by their clocks: run chrony or systemd-timesyncd on both';
    return { name, state: 'warning', text, advice, facts };
  } catch (error) {
    return { name, ...warningOf(error) };
  }
}

const seconds = (ns: bigint): string => (Number(ns) / 1e9).toFixed(3);

async function claimCheck(connection: Connection, folder: string, { dataFolder }: HostFacts): Promise<Check> {
  const name = 'ship claim';
  const recordingId = recordedIn(dataFolder)?.recordingId;
  if (recordingId === undefined) return { name, state: 'unknown', text: `there is no recording in ${dataFolder} yet` };
  try {
    const known = await askNode(connection, recordingId, AbortSignal.timeout(ANSWER_MS_MAX));
    // A shipper notes each report before it sends it: the position is read behind the reports.
    const { position } = positionIn(folder);
    const own = position?.recordingId === recordingId ? position : undefined;
    checkClaim(known, recordingId, own ?? { claim: '' });
    const text =
      own === undefined ? 'nothing of this recording was shipped yet' : 'this recording is shipped from here';
    return { name, state: 'ok', text };
  } catch (error) {
    return { name, ...warningOf(error) };
  }
}

function warningOf(error: unknown): Pick<Check, 'state' | 'text'> {
  return { state: 'warning', text: messageOf(error) };
}

function messageOf(error: unknown): string {
  if (error instanceof UserError) return error.message;
  if ((error as Error).name === 'TimeoutError') return `no answer within ${ANSWER_MS_MAX / 1000} s`;
  throw error;
}
