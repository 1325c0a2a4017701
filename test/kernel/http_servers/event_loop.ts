/**
 * An HTTP server on an event loop: `node:http`.
 *
 *   node event_loop.ts FOLDER MODE     # prints its port, exits at the end of its standard input
 *
 * MODE: `sync`; `pool`, threads of libuv write.
 */
import { appendFileSync, writeSync } from 'node:fs';
import { appendFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const [folder, mode] = process.argv.slice(2) as [string, string];

const server = createServer(async (request, response) => {
  const target = new URL(request.url!, 'http://127.0.0.1');
  const path = folder + target.pathname;
  const trace = request.headers.traceparent?.toString().split('-')[1] ?? '-';
  const say = async (line: string) => {
    if (mode === 'pool') await appendFile(path, line);
    else appendFileSync(path, line);
  };
  await say(`before ${trace}\n`);
  await sleep(Number(target.search.slice(1)));
  await say(`after ${trace}\n`);
  response.end();
});

// A client may take longer on a busy machine than the seconds that an idle connection is kept for.
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => writeSync(1, `${(server.address() as AddressInfo).port}\n`));
process.stdin.resume().once('end', () => process.exit());
