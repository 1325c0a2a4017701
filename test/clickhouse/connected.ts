/** Connections of a test, and what is expected of them. */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { type Connection, connect } from '../../agent/clickhouse/connection/connection.ts';
import { ServerError } from '../../agent/clickhouse/connection/server_error.ts';
import type { ConnectionSettings } from '../../agent/clickhouse/connection/settings.ts';
import { sql } from '../../agent/clickhouse/statements/sql.ts';

const open: (() => unknown)[] = [];

/** Suites call it in afterEach(). */
export function closeAll(): void {
  for (const close of open.splice(0)) close();
}

export function connectedTo(url: string, settings: Partial<ConnectionSettings> = {}): Connection {
  const connection = connect({ urls: [url], database: 'default', ...settings });
  open.push(() => connection.close());
  return connection;
}

/** The error of work that fails; throws what is no ServerError. */
export async function errorOf(work: Promise<unknown>): Promise<ServerError> {
  const error = await work.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(error instanceof ServerError)) throw error ?? new Error('there was no error');
  return error;
}

export const one = sql`SELECT toUInt8(1) AS one`;

/** A listener that does with each connection what a broken server or proxy would. */
export async function listener(answer: (socket: Socket) => void, port = 0): Promise<string> {
  const listening = createServer(answer).listen(port, '127.0.0.1');
  open.push(() => listening.close());
  await once(listening, 'listening');
  return `http://127.0.0.1:${(listening.address() as { port: number }).port}`;
}
