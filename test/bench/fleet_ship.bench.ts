/**
 * Measures what it costs to send a recording to a fleet's server, in one run on one server: kreplay, and rows as other
 * senders send them.
 */
import { mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { connect as connectTo, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ClickHouseServer, endServers, startServer } from '../clickhouse/server.ts';
import { type Certificate, newAuthority, newCertificate } from '../daemon/certificates.ts';
import { type BenchContext, BenchError, type BenchResult } from './bench.ts';
import { type Format, ROW_COLUMNS } from './fleet_sender.ts';
import { largeStore } from './large_store.ts';
import { KREPLAY, NODE, run as runProgram } from './process.ts';

export const summary = 'what it costs to send a recording to a fleet, beside rows of JSON and of RowBinary';
export const unit = "ns of the sender's CPU an event, from the file to TLS";

const EVENTS = 2_000_000;
const KILLED_EVENTS = 500_000;
const SHAPE = { eventsPerSecond: 10_000, eventsPerFlush: 4096 };
const SENDER_NS_MAX = 700;
const SERVER_SHARE_MAX = 0.4;
const EVENT_BYTES_MAX = 14;
/** Debian's server has no codecs for columns; this is the nearest that its configuration allows. */
const PACKED =
  '<compression><case><min_part_size>0</min_part_size><min_part_size_ratio>0</min_part_size_ratio><method>zstd</method></case></compression>';
const SENDER = join(import.meta.dirname, 'fleet_sender.ts');
/** Ticks of the clock in /proc/PID/stat. */
const TICKS_A_SECOND = 100;

/** `kreplay gzip` packs what it sends, as it does by default to another machine. */
type Side = 'kreplay' | 'kreplay gzip' | Format;
const SIDES: readonly Side[] = ['kreplay', 'kreplay gzip', 'JSONEachRow', 'RowBinary'];
const isOurs = (side: Side): side is 'kreplay' | 'kreplay gzip' => side.startsWith('kreplay');

interface Cost {
  senderNs: number;
  serverNs: number;
  wireBytes: number;
  diskBytes: number;
  perSecond: number;
}

interface Killed {
  kills: number;
  lost: number;
  doubled: number;
}

interface Stage {
  context: BenchContext;
  server: ClickHouseServer;
  certificate: Certificate;
  authority: Certificate;
}

export async function run(context: BenchContext): Promise<BenchResult> {
  const { buildFolder, folder, signal, sizes, progress } = context;
  const events = sizes.events ?? EVENTS;
  progress(`writing ${events} events, unless they are kept from the last time`);
  const { path } = await largeStore('kreplay', { events, ...SHAPE }, buildFolder, signal);
  const killedEvents = Math.min(events, KILLED_EVENTS);
  const few = await largeStore('kreplay', { events: killedEvents, ...SHAPE }, buildFolder, signal);
  const authority = newAuthority(folder);
  const certificate = newCertificate(folder, 'server', authority);
  const server = await startServer({ tls: { certificate, authority }, more: PACKED });
  const stage = { context, server, certificate, authority };
  try {
    const costs = new Map<Side, Cost>();
    const killed = new Map<Side, Killed>();
    for (const side of SIDES) {
      progress(`${side}: sending ${events} events`);
      costs.set(side, await measure(stage, side, path, events));
      progress(`${side}: sending ${killedEvents} events to a server that is killed`);
      killed.set(side, await measureKilled(stage, side, few.path, killedEvents));
    }
    return resultOf(events, costs, killed);
  } finally {
    await endServers();
  }
}

function resultOf(events: number, costs: Map<Side, Cost>, killed: Map<Side, Killed>): BenchResult {
  const each = (format: (side: Side) => string) => SIDES.map(format);
  const [ours, json] = [costs.get('kreplay')!, costs.get('JSONEachRow')!];
  const { lost, doubled } = killed.get('kreplay')!;
  const share = ours.serverNs / json.serverNs;
  return {
    value: Math.round(ours.senderNs),
    anchors: Object.fromEntries(SIDES.slice(1).map((side) => [side, Math.round(costs.get(side)!.senderNs)])),
    targets: [
      {
        text: `the sender takes at most ${SENDER_NS_MAX} ns an event`,
        measured: ours.senderNs.toFixed(0),
        met: ours.senderNs <= SENDER_NS_MAX,
      },
      {
        text: `the server takes at most ${SERVER_SHARE_MAX} of what it takes for JSONEachRow`,
        measured: share.toFixed(2),
        met: share <= SERVER_SHARE_MAX,
      },
      {
        text: `an event takes at most ${EVENT_BYTES_MAX} bytes of disk, all tables included`,
        measured: ours.diskBytes.toFixed(1),
        met: ours.diskBytes <= EVENT_BYTES_MAX,
      },
      {
        text: 'nothing is lost or doubled when the server is killed',
        measured: `${lost} / ${doubled}`,
        met: lost === 0 && doubled === 0,
      },
    ],
    table: [
      [`${events} events, each`, ...SIDES],
      ["sender's CPU, ns", ...each((side) => costs.get(side)!.senderNs.toFixed(0))],
      ["server's CPU with merges, ns", ...each((side) => costs.get(side)!.serverNs.toFixed(0))],
      ['bytes on the wire', ...each((side) => costs.get(side)!.wireBytes.toFixed(1))],
      ['bytes on disk, merged', ...each((side) => costs.get(side)!.diskBytes.toFixed(1))],
      ['events/s', ...each((side) => String(Math.round(costs.get(side)!.perSecond)))],
      [
        'kills; lost / doubled',
        ...each((side) => {
          const { kills, lost: gone, doubled: twice } = killed.get(side)!;
          return `${kills}; ${gone} / ${twice}`;
        }),
      ],
    ],
    details: { events, costs: Object.fromEntries(costs), killed: Object.fromEntries(killed) },
  };
}

/** Makes new tables for a side. */
async function prepare({ context: { signal }, server, certificate, authority }: Stage, side: Side): Promise<void> {
  await server.sql('DROP DATABASE IF EXISTS kreplay');
  await server.sql('DROP DATABASE IF EXISTS peer');
  if (isOurs(side)) {
    const tls = ['--tls-ca', authority.cert, '--tls-cert', certificate.cert, '--tls-key', certificate.key];
    await runProgram([...KREPLAY, 'fleet', 'init', '--url', server.url, ...tls], { signal });
    return;
  }
  await server.sql('CREATE DATABASE peer');
  const columns = ROW_COLUMNS.map(([name, type]) => `${name} ${type}`).join();
  await server.sql(
    `CREATE TABLE peer.rows (${columns}) ENGINE = MergeTree PARTITION BY intDiv(timestamp_ns, 3600000000000) ORDER BY (service_name, timestamp_ns)`,
  );
}

function senderOf(
  { context: { folder }, certificate, authority }: Stage,
  side: Side,
  path: string,
  url: string,
): string[] {
  const { cert, key } = certificate;
  if (!isOurs(side)) return [...NODE, SENDER, side, url, authority.cert, cert, key, path];
  const data = join(folder, 'data');
  rmSync(data, { recursive: true, force: true });
  mkdirSync(data);
  symlinkSync(path, join(data, 'recording.kreplay'));
  const tls = ['--tls-ca', authority.cert, '--tls-cert', cert, '--tls-key', key];
  const packing = ['--compression', side === 'kreplay' ? 'none' : 'gzip'];
  const places = ['--data', data, '--state', join(data, 'ship'), ...packing];
  return [...KREPLAY, 'ship', '--once', '--log-level', 'error', ...places, '--url', url, ...tls];
}

async function measure(stage: Stage, side: Side, path: string, events: number): Promise<Cost> {
  const { context, server } = stage;
  await prepare(stage, side);
  const wire = await countingProxy(server.port);
  const before = serverCpuNs(server);
  const sinceMs = performance.now();
  const { userNs, systemNs } = await runProgram(senderOf(stage, side, path, wire.url), context);
  const seconds = (performance.now() - sinceMs) / 1000;
  const database = isOurs(side) ? 'kreplay' : 'peer';
  for (const table of await tablesIn(server, database)) await server.sql(`OPTIMIZE TABLE ${database}.${table} FINAL`);
  const serverNs = serverCpuNs(server) - before;
  const disk = await numberOf(
    server,
    `SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = '${database}'`,
  );
  wire.close();
  const { lost, doubled } = await arrived(server, side, events);
  if (lost !== 0 || doubled !== 0) throw new BenchError(`${side}: ${lost} events are lost, ${doubled} are doubled`);
  return {
    senderNs: (userNs + systemNs) / events,
    serverNs: serverNs / events,
    wireBytes: wire.bytes() / events,
    diskBytes: disk / events,
    perSecond: events / seconds,
  };
}

/** Kills the server as often as it finds time to while the events are sent. */
async function measureKilled(stage: Stage, side: Side, path: string, events: number): Promise<Killed> {
  const { context, server } = stage;
  await prepare(stage, side);
  let kills = 0;
  let isSending = true;
  const killing = (async () => {
    while (isSending && kills < 5) {
      await sleep(700 + 150 * kills);
      if (!isSending) return;
      await server.kill();
      kills++;
      await server.restart();
    }
  })();
  await runProgram(senderOf(stage, side, path, server.url), context).finally(() => {
    isSending = false;
  });
  await killing;
  return { kills, ...(await arrived(server, side, events)) };
}

/** By an event's id, after merges: a row that was replaced is none. */
async function arrived(server: ClickHouseServer, side: Side, events: number): Promise<Omit<Killed, 'kills'>> {
  const [table, id] = isOurs(side) ? ['kreplay.event', '(recording, number)'] : ['peer.rows', 'event_id'];
  await server.sql(`OPTIMIZE TABLE ${table} FINAL`);
  const rows = await numberOf(server, `SELECT count() FROM ${table}`);
  const distinct = await numberOf(server, `SELECT uniqExact(${id}) FROM ${table}`);
  return { lost: events - distinct, doubled: rows - distinct };
}

async function tablesIn(server: ClickHouseServer, database: string): Promise<string[]> {
  const answer = await server.sql(
    `SELECT name FROM system.tables WHERE database = '${database}' AND engine LIKE '%MergeTree' FORMAT TSV`,
  );
  return answer.toString().trim().split('\n').filter(Boolean);
}

async function numberOf(server: ClickHouseServer, statement: string): Promise<number> {
  return Number((await server.sql(statement)).toString().trim());
}

function serverCpuNs({ child }: ClickHouseServer): number {
  const text = readFileSync(`/proc/${child.pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return ((Number(fields[11]) + Number(fields[12])) / TICKS_A_SECOND) * 1e9;
}

/** Passes bytes on, and counts those that are sent. */
async function countingProxy(port: number): Promise<{ url: string; bytes(): number; close(): void }> {
  let bytes = 0;
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const server = connectTo(port, '127.0.0.1');
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.on('error', () => {
        client.destroy();
        server.destroy();
      });
    }
    client.on('data', (chunk) => {
      bytes += chunk.length;
    });
    client.pipe(server).pipe(client);
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const { port: own } = proxy.address() as { port: number };
  return {
    url: `https://127.0.0.1:${own}`,
    bytes: () => bytes,
    close() {
      for (const socket of sockets) socket.destroy();
      proxy.close();
    },
  };
}
