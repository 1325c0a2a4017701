/** Reads the events of a query as columns, in the page's second thread. */
import type { EventColumns } from '../columns/event_columns.ts';
import type { Coverage } from './answers.ts';
import type { Daemon } from './daemon.ts';
import { FailedRequest, type Failure } from './failure.ts';

export interface ColumnsQuestion {
  path: string;
  /** Events after which reading ends. */
  most: number;
  headers: Record<string, string>;
}

export type ColumnsAnswer =
  /** The first events, while the others are read. */
  | { kind: 'first'; columns: EventColumns }
  /** Coverage is null if reading ended early. */
  | { kind: 'all'; columns: EventColumns; coverage: Coverage | null }
  | { kind: 'failed'; failure: Failure };

export interface LoadedColumns {
  columns: EventColumns;
  /** Null if not all events were read, or not yet. */
  coverage: Coverage | null;
}

export interface LoadOptions {
  /** Events after which reading ends; without it, all are read. */
  most?: number;
  /** Called with the first events of a long answer. */
  onFirst?: (loaded: LoadedColumns) => void;
  /** Ends the thread. */
  signal: AbortSignal;
}

/** The bundler puts the address of the second thread's script here. */
declare const WORKER_ADDRESS: string;

interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createScriptURL(text: string): string },
  ): { createScriptURL(text: string): string };
}

/** The page's policy allows a script's address only as this one makes it: that of the page's own worker. */
const policy = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy('kreplay', {
  createScriptURL: () => WORKER_ADDRESS,
});

export function loadColumns(
  daemon: Daemon,
  path: string,
  { most = Number.POSITIVE_INFINITY, onFirst = () => {}, signal }: LoadOptions,
): Promise<LoadedColumns> {
  const worker = new Worker(policy ? policy.createScriptURL('') : WORKER_ADDRESS, { type: 'module' });
  const { promise, resolve, reject } = Promise.withResolvers<LoadedColumns>();
  worker.addEventListener('message', ({ data }: MessageEvent<ColumnsAnswer>) => {
    if (data.kind === 'first') onFirst({ columns: data.columns, coverage: null });
    else if (data.kind === 'all') resolve(data);
    else reject(new FailedRequest(data.failure));
  });
  worker.addEventListener('error', ({ message }) =>
    reject(new Error(message || 'the second thread cannot be started')),
  );
  signal.addEventListener('abort', () => reject(signal.reason));
  const question: ColumnsQuestion = { path, most, headers: daemon.authorization() };
  worker.postMessage(question);
  return promise.finally(() => worker.terminate());
}
