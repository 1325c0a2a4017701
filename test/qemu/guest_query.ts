/** Queries the daemon for events. */
import { get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** The fields of an event that the checks read. Times are rounded to doubles: to a quarter of a microsecond. */
export interface Event {
  event_id: string;
  event_type: string;
  timestamp_ns: number;
  duration_ns: number;
  tid: number;
  comm: string;
  result: number;
  transaction_id: string | null;
  service_name: string;
  file?: string | null;
  file_kind?: string;
  syscall?: string;
  bytes_requested?: number;
  device?: string;
  sector?: number;
  operation?: string;
  bytes?: number;
}

export interface Answer {
  events: Event[];
  coverage: { lost: number; losses: { lost: number; cause: string }[] };
}

/** All events of a query, the oldest first. */
export type Query = (parameters: string) => Promise<Answer>;

const LIMIT = 10_000;
/** An event can be queried 250 ms after its end; an emulated kernel takes longer. */
const SETTLED_MS = 1500;

export function queryOf(port: number): Query {
  let settled: Promise<void> | undefined;
  return async (parameters) => {
    settled ??= sleep(SETTLED_MS);
    await settled;
    const path = `/api/events?${parameters}&order=asc&limit=${LIMIT}`;
    const { status, text } = await fetched(port, path);
    if (status !== 200) throw new Error(`${path}: ${status} ${text}`);
    return JSON.parse(text) as Answer;
  };
}

function fetched(port: number, path: string): Promise<{ status: number | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    const request = get({ host: '127.0.0.1', port, path, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      response.on('end', () => resolve({ status: response.statusCode, text }));
    });
    request.on('error', reject);
  });
}
