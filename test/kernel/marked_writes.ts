/**
 * A program that uses `kreplay/mark` as its users do: every transaction writes to files of its own name, so that a
 * recording shows which write is whose. It is run in a folder where `kreplay` and `express` are installed.
 *
 *   node marked_writes.ts transactions FOLDER CONCURRENCY
 *   node marked_writes.ts server FOLDER                       # prints its port, exits at the end of its standard input
 */
import { AsyncResource } from 'node:async_hooks';
import { appendFileSync, closeSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { appendFile, readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import express from 'express';
import { expressMiddleware, transaction } from 'kreplay/mark';

const [mode, folder, concurrency] = process.argv.slice(2) as [string, string, string?];

/** Number of transactions in all, not of each worker. */
const TRANSACTIONS = 48;

/** Makes ten synchronous writes to the file of this name, and five to that of the transaction inside. */
async function writeEverywhere(name: string): Promise<void> {
  const fd = openSync(join(folder, name), 'a');
  const say = () => writeSync(fd, `${name}\n`);
  const later = (schedule: (back: () => void) => void) =>
    new Promise<void>((done) => {
      schedule(() => {
        say();
        done();
      });
    });
  say();
  await null;
  say();
  await sleep(1);
  say();
  await readFile(import.meta.filename);
  say();
  await later(setImmediate);
  await later(process.nextTick);
  await later(queueMicrotask);
  const inner = `${name}-inner`;
  const writeInner = async () => {
    for (let i = 0; i < 5; i++) {
      appendFileSync(join(folder, inner), `${inner}\n`);
      await sleep(i % 2);
    }
  };
  const started = transaction(inner, writeInner, { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', service: 'inner' });
  say();
  await started;
  say();
  bound.push(AsyncResource.bind(say));
  await sleep(15);
  closeSync(fd);
}

/** A pool thread makes this write: it has no owner, or the right one. */
async function writeAsynchronously(name: string): Promise<void> {
  await appendFile(join(folder, `${name}-async`), `${name}\n`);
}

/** Functions that are bound to transactions, but called by a timer that belongs to none. */
const bound: (() => void)[] = [];

async function carryOut(name: string): Promise<void> {
  await transaction(name, async () => {
    await Promise.all([writeEverywhere(name), writeAsynchronously(name)]);
  });
}

async function transactions(workers: number): Promise<void> {
  const nobody = setInterval(() => {
    for (const fn of bound.splice(0)) fn();
    appendFileSync(join(folder, 'nobody'), 'nobody\n');
  }, 2);
  let next = 0;
  const worker = async () => {
    while (next < TRANSACTIONS) await carryOut(`t${next++}`);
  };
  await Promise.all(Array.from({ length: workers }, worker));
  clearInterval(nobody);
}

/** Makes three synchronous writes for each request; the size of the answer identifies the request. */
function server(): void {
  const app = express();
  app.use(expressMiddleware());
  app.use(express.json());
  app.post('/', async (request, response) => {
    const { name, bytes } = request.body as { name: string; bytes: number };
    const say = () => writeFileSync(join(folder, name), `${name}\n`, { flag: 'a' });
    say();
    await readFile(import.meta.filename);
    say();
    await sleep(bytes % 5);
    say();
    response.type('text').send('.'.repeat(bytes));
  });
  const listening = app.listen(0, '127.0.0.1', () => {
    writeSync(1, `${(listening.address() as AddressInfo).port}\n`);
  });
  process.stdin.resume().once('end', () => {
    listening.close();
    listening.closeAllConnections();
  });
}

if (mode === 'server') server();
else await transactions(Number(concurrency));
