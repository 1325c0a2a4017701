/** Tests disks that are full, of the node and of the server: shipping waits, says why, and goes on. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ClickHouseServer, endServers, startServer } from '../clickhouse/server.ts';
import { appendRows, newFolder, newWriter, recorded } from '../daemon/recorded.ts';
import { expectAll, initFleet, isThere, startFleet, stateOf } from './fleet.ts';
import { endShippingHere, startHere } from './here.ts';
import { loadRows, noisyRows, randomNumbers } from './load.ts';

const mounts: string[] = [];
const servers: ClickHouseServer[] = [];

afterEach(async () => {
  await endShippingHere();
  for (const server of servers.splice(0)) await server.kill();
  for (const mount of mounts.splice(0)) execFileSync('umount', ['-l', mount]);
});
afterAll(endServers);

function mountSmall(folder: string, size: string): void {
  mkdirSync(folder, { recursive: true });
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder]);
  mounts.push(folder);
}

describe('a disk that is full', () => {
  test('at the node keeps shipping waiting, and says so', async () => {
    const rows = loadRows(2000);
    const server = await startFleet();
    servers.push(server);
    const folder = recorded(rows);
    const state = stateOf(folder);
    mountSmall(state, '64k');
    const filler = join(state, 'filler');
    try {
      writeFileSync(filler, Buffer.alloc(1 << 20));
    } catch {
      // Full.
    }
    const { ended, logged, end, progress } = startHere(folder, server.url);
    await logged(/no space/i);
    const hasEnded = await Promise.race([ended.then(() => true), sleep(1000).then(() => false)]);
    expect([hasEnded, progress.events]).toEqual([false, 0]);
    rmSync(filler);
    await logged(/shipping goes on/);
    await isThere(server, rows.length);
    await end();
    await expectAll(server, rows);
  });

  test('at the server keeps shipping waiting', async () => {
    const small = await startServer();
    servers.push(small);
    await small.kill();
    const data = join(small.folder, 'data');
    renameSync(data, `${data}.before`);
    mountSmall(data, '1200k');
    cpSync(`${data}.before`, data, { recursive: true, preserveTimestamps: true });
    await small.restart();
    await initFleet(small);
    const folder = newFolder();
    const writer = newWriter(folder);
    const rows = noisyRows(20_000, 0, randomNumbers(3));
    appendRows(writer, rows);
    writer.close();
    const { ended, logged } = startHere(folder, small.url, { once: true });
    await logged(/space/);
    execFileSync('mount', ['-o', 'remount,size=400m', data]);
    await ended;
    await expectAll(small, rows);
  });
});
