/**
 * PostgreSQL under transactions that its sessions label themselves: `COPY ... TO '/dev/null'` makes the backend write a
 * marker. The truth is the server's own log. A backend writes each message with one call, so the recorded messages
 * show, without a clock, which statement its other writes belong to.
 */
import type { SysWriteEvent } from '../../bpf/schema/api.ts';
import { type Recorded, record, removeFolders } from '../kernel/recorded_run.ts';
import { KREPLAY } from './kreplay.ts';
import { expectOwners, knowsOwners, lostOf } from './owners.ts';
import {
  type Cluster,
  endServers,
  type Message,
  makeCluster,
  messagesOf,
  type Server,
  startServer,
} from './postgresql_server.ts';

const CLIENTS = 4;
const TRANSACTIONS = 53;

const SCRIPT = `
\\set i :i + 1
\\set aid random(1, 100000)
COPY (SELECT 'KREPLAY1 txn=pg-' || :client_id || '-' || :i) TO '/dev/null';
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;
INSERT INTO notes SELECT :client_id, :i, repeat('note', 200) FROM generate_series(1, 20);
END;
COPY (SELECT 'KREPLAY1 end') TO '/dev/null';
INSERT INTO notes VALUES (:client_id, :i, 'of nobody');
`;

let cluster: Cluster;

beforeAll(async () => {
  cluster = makeCluster();
  const server = await startServer(cluster, []);
  server.psql('CREATE TABLE notes (client int, i int, note text)');
  server.psql('CREATE TABLE pgbench_accounts AS SELECT i AS aid, 0 AS abalance FROM generate_series(1, 100000) AS i');
  server.psql('CREATE INDEX ON pgbench_accounts (aid)');
  await server.stop();
}, 120_000);

afterEach(endServers);

afterAll(() => {
  cluster?.remove();
  removeFolders();
});

/** The transaction of a backend after a message, null for none. Undefined: the message does not change it. */
function ownerBehind({ text }: Message): string | null | undefined {
  const [, client, i] = /KREPLAY1 txn=pg-' \|\| (\d+) \|\| '-' \|\| (\d+)\)/.exec(text) ?? [];
  if (client) return `pg-${client}-${i}`;
  return text.includes('KREPLAY1 end') ? null : undefined;
}

interface Judged {
  event: SysWriteEvent;
  /** It has two entries while the statement that changes the owner runs. */
  owners: readonly (string | null)[];
}

/**
 * Pairs each write of a process, except its messages, with its possible owners. `first` is the owner before the process
 * sets one itself. Undefined: the recording lacks one of the messages, and what is between them cannot be judged.
 */
function judge(
  writes: readonly SysWriteEvent[],
  messages: readonly Message[],
  log: string,
  first: string | null,
): Judged[] | undefined {
  const said = writes.filter(({ file }) => file === log).map(({ result }) => Number(result));
  if (said.join() !== messages.map(({ bytes }) => bytes).join()) return undefined;
  let owners: (string | null)[] = [first];
  let next = 0;
  return writes.flatMap((event) => {
    if (event.file !== log) return [{ event, owners }];
    const now = ownerBehind(messages[next++]!);
    // Either owner is possible until the next message, which reports the end of the statement.
    owners = now === undefined ? [owners.at(-1)!] : [owners.at(-1)!, now];
    return [];
  });
}

interface Tally {
  right: number;
  /** Events that have no owner, rightly. */
  nobody: number;
  /** Events that have no owner, although they should have one. */
  none: number;
  wrong: number;
}

function tally(judged: readonly Judged[]): Tally {
  const counts: Tally = { right: 0, nobody: 0, none: 0, wrong: 0 };
  for (const { event, owners } of judged) {
    const isSo = owners.includes(event.transaction_id);
    counts[event.transaction_id === null ? (isSo ? 'nobody' : 'none') : isSo ? 'right' : 'wrong']++;
  }
  return counts;
}

const isIn = (folder: string, { file }: SysWriteEvent) => file?.startsWith(`${cluster.data}/${folder}/`) === true;
const isWal = ({ event }: Judged) => isIn('pg_wal', event);
const isData = ({ event }: Judged) => isIn('base', event);

const MARKED = /KREPLAY1 txn=pg-/;

const runScript = (server: Server) => server.pgbench(SCRIPT, CLIENTS, TRANSACTIONS);

/** The processes of the server that are not sessions and have something to write. */
function writersOf(server: Server): Set<number> {
  const types = "'checkpointer', 'background writer', 'walwriter'";
  const pids = server.psql(`SELECT pid FROM pg_stat_activity WHERE backend_type IN (${types})`);
  return new Set(pids.trim().split('\n').map(Number));
}

/** Writes of the cluster's own processes: this host may run other servers. */
function writesOf(recorded: Recorded): SysWriteEvent[] {
  const writes = recorded.writes({ comms: ['postgres'] });
  const isOurs = ({ file }: SysWriteEvent) => file?.startsWith(`${cluster.folder}/`) === true;
  const pids = new Set(writes.filter(isOurs).map(({ pid }) => pid));
  return writes.filter(({ pid }) => pids.has(pid));
}

/** The messages of each backend that ran the script. */
function sessionsOf(log: string): [pid: number, messages: Message[]][] {
  const sessions = [...messagesOf(log)].filter(([, messages]) => messages.some(({ text }) => MARKED.test(text)));
  expect(sessions).toHaveLength(CLIENTS);
  return sessions;
}

/** No write of a session has another's label, and none of a session that sets its own label lacks it. */
function expectSessionsRight(recorded: Recorded, log: string, first: string | null): void {
  const writes = Map.groupBy(writesOf(recorded), ({ pid }) => pid);
  const sessions = sessionsOf(log).map(([pid, messages]) => judge(writes.get(pid) ?? [], messages, log, first));
  const known = sessions.filter((session) => session !== undefined);
  const judged = known.flat();
  const { wrong, none, nobody } = tally(judged);
  expect(wrong).toBe(0);
  expect(known.length + lostOf(recorded)).toBeGreaterThanOrEqual(CLIENTS);
  if (known.length < CLIENTS || !knowsOwners(recorded)) return;
  expect(none).toBe(0);
  expect(nobody).toBeGreaterThan(0);
  for (const kind of [isWal, isData]) expect(tally(judged.filter(kind)).right).toBeGreaterThan(0);
}

describe('PostgreSQL', () => {
  test('each write of a session belongs to its transaction, and all others to the whole server', async () => {
    let server!: Server;
    let writers!: Set<number>;
    const recorded = await record(async () => {
      server = await startServer(cluster, [KREPLAY, 'exec', '--transaction', 'pg-server', '--']);
      runScript(server);
      server.psql('CHECKPOINT');
      writers = writersOf(server);
      await server.stop();
    });
    expectSessionsRight(recorded, server.log, 'pg-server');
    const byOthers = writesOf(recorded).filter(({ pid }) => writers.has(pid));
    // Titles such as "postgres: checkpointer" overwrite the arguments.
    expectOwners(recorded, byOthers, ['postgres pg-server inherited']);
  });

  test('on a server that started before the agent the sessions are right, and nothing else has an owner', async () => {
    const server = await startServer(cluster, [KREPLAY, 'exec', '--transaction', 'pg-before', '--']);
    const recorded = await record(async () => {
      runScript(server);
      server.psql('CHECKPOINT');
      await server.stop();
    });
    expectSessionsRight(recorded, server.log, null);
    const sessions = new Set(sessionsOf(server.log).map(([pid]) => pid));
    const byOthers = writesOf(recorded).filter(({ pid }) => !sessions.has(pid));
    expect(byOthers.filter(({ transaction_id }) => transaction_id !== null)).toEqual([]);
    expectOwners(recorded, byOthers, ['postgres  none']);
  });

  test('a label of the whole server applies to all its processes and sessions', async () => {
    const label = ['--service', 'shop-db', '--transaction', 'pg-whole'];
    const recorded = await record(async () => {
      const server = await startServer(cluster, [KREPLAY, 'exec', ...label, '--']);
      server.pgbench("INSERT INTO notes VALUES (:client_id, 0, 'of all');", CLIENTS, TRANSACTIONS);
      server.psql('CHECKPOINT');
      await server.stop();
    });
    const writes = writesOf(recorded);
    expect(writes.some((event) => isIn('pg_wal', event))).toBe(true);
    // The first process holds the label itself.
    expectOwners(recorded, writes, ['shop-db pg-whole exact', 'shop-db pg-whole inherited']);
  });
});
