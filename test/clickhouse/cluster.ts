/** Servers that replicate tables between each other, and the ZooKeeper that they agree by. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ClickHouseServer, endWithServers, freePort, isInstalled, startServer } from './server.ts';

/** A server of seconds never earns back what optimised code and several collectors of garbage cost at its start. */
const QUICK = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'];
const NEEDED = ['/usr/share/java/zookeeper.jar', '/usr/bin/java'];
const missing = NEEDED.filter((path) => !existsSync(path));
if (missing.length > 0) console.warn(`skipped: ${missing.join(', ')} not installed (zookeeper, default-jdk-headless)`);
export const hasCluster = isInstalled && missing.length === 0;

const READY_MS_MAX = 60_000;

/** Returns its port. `endServers` ends it. */
export async function startKeeper(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-zookeeper-'));
  const port = await freePort();
  const settings = { dataDir: folder, clientPort: port, clientPortAddress: '127.0.0.1', 'admin.enableServer': false };
  const configuration = join(folder, 'zoo.cfg');
  writeFileSync(
    configuration,
    Object.entries({ ...settings, tickTime: 500, '4lw.commands.whitelist': 'ruok' })
      .map(([name, value]) => `${name}=${value}\n`)
      .join(''),
  );
  const program = [
    '-Xmx256m',
    ...QUICK,
    '-cp',
    '/usr/share/java/*',
    'org.apache.zookeeper.server.quorum.QuorumPeerMain',
  ];
  const child = spawn('/usr/bin/java', [...program, configuration], { stdio: 'ignore', cwd: folder });
  const ended = once(child, 'exit');
  endWithServers(async () => {
    child.kill('SIGKILL');
    await ended;
    rmSync(folder, { recursive: true, force: true });
  });
  const deadline = performance.now() + READY_MS_MAX;
  while (!(await isWell(port))) {
    if (child.exitCode !== null || performance.now() > deadline) throw new Error('ZooKeeper does not start');
    await sleep(50);
  }
  return port;
}

async function isWell(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1', () => socket.end('ruok'));
  // A keeper that is starting may take a connection and never answer it.
  socket.setTimeout(1000, () => socket.destroy());
  try {
    return Buffer.concat(await socket.toArray()).toString() === 'imok';
  } catch {
    return false;
  }
}

/** Starts `shards` times `replicas` servers of the cluster `main`, which meet at this keeper or one of their own. */
export async function startCluster(
  shards: number,
  replicas: number,
  keeperPort?: number,
): Promise<ClickHouseServer[][]> {
  const keeper = keeperPort ?? (await startKeeper());
  const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);
  const ports = await Promise.all(numbers(shards).map(() => Promise.all(numbers(replicas).map(freePort))));
  const nodes = ports.map((own) => {
    const places = own.map((port) => `<replica><host>127.0.0.1</host><port>${port}</port></replica>`);
    return `<shard><internal_replication>true</internal_replication>${places.join('')}</shard>`;
  });
  // A server that was killed is taken for alive until its session ends.
  const shared = `<remote_servers><main>${nodes.join('')}</main></remote_servers>
  <zookeeper><node index="1"><host>127.0.0.1</host><port>${keeper}</port></node>
    <session_timeout_ms>2000</session_timeout_ms></zookeeper>
  <interserver_http_host>127.0.0.1</interserver_http_host>`;
  return Promise.all(
    ports.map((own, shard) =>
      Promise.all(
        own.map(async (tcpPort, replica) => {
          const macros = `<macros><shard>${shard}</shard><replica>${replica}</replica></macros>`;
          const interserver = `<interserver_http_port>${await freePort()}</interserver_http_port>`;
          return startServer({ tcpPort, more: `${shared}${macros}${interserver}` });
        }),
      ),
    ),
  );
}

/**
 * Errors of a server that has no session with its keeper, or that was restarted before its earlier session ended: the
 * keeper may remove the leader's node of the earlier session between the list of nodes and the read of the node.
 */
const NO_SESSION =
  /No active replicas|readonly mode|Leader was suddenly changed|leader_election\S*: node doesn't exist/;

/** Empties tables of a fleet at each of the servers. */
export async function emptyTables(servers: readonly ClickHouseServer[], tables: readonly string[]): Promise<void> {
  for (const server of servers)
    for (const table of tables) {
      for (let isEmpty = false; !isEmpty; ) {
        try {
          await server.sql(`TRUNCATE TABLE kreplay.${table}`);
          isEmpty = true;
        } catch (error) {
          if (!NO_SESSION.test(String(error))) throw error;
          await sleep(100);
        }
      }
    }
}
