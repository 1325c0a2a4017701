/** Clients that stop to read, at a server with little room: one that takes nothing makes room, one that reads does not. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { limitConnections } from '../../daemon/access/connections.ts';
import { createUnsent } from '../../daemon/access/unsent.ts';

const STALLED_MS = 2500;

test('the_one_that_takes_nothing_makes_room_and_the_one_that_reads_slowly_stays', async () => {
  const closed: string[] = [];
  const unsent = createUnsent({ stalledMs: STALLED_MS, onClosed: () => closed.push('not_read') });
  const server = createServer((_req, res) => void res.end(Buffer.alloc(64 * 1024 * 1024)));
  const limits = { connectionsMax: 2, perClientMax: 2, unsent, onClosed: (reason: string) => void closed.push(reason) };
  limitConnections(server, limits);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const open = async (): Promise<Socket> => {
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    await once(socket, 'connect');
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    return socket;
  };
  const slow = await open();
  // Before the other one: by age it would be the first to go.
  const reading = setInterval(() => slow.read(400_000), 50);
  const stalled = await open();
  const isOpen = () => unsent.bytes > 0;
  await sleep(500);
  expect(isOpen()).toBe(true);
  // Nobody has waited for long.
  await once((await open()).resume(), 'close');
  expect(closed).toEqual(['turned_away']);
  await sleep(STALLED_MS + 2000);
  const served = await open();
  await once(served, 'data');
  expect(closed).toEqual(['turned_away', 'not_read']);
  await once(stalled.resume(), 'close');
  expect(slow.closed).toBe(false);
  clearInterval(reading);
  for (const socket of [slow, served]) socket.destroy();
  server.close();
  server.closeAllConnections();
}, 30_000);
