/**
 * Runs the work of an answer that needs the complete result. Other requests are served between the steps of the work.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Response } from 'express';
import { yieldToEventLoop } from '../../base/event_loop.ts';
import type { ScanSlot } from '../access/scan_gate.ts';
import { isOpen } from '../ndjson.ts';

/** Runs all steps of `work` and resolves to its result; undefined if the client has disconnected. */
export async function runToEnd<Result>(
  res: Response,
  slot: ScanSlot,
  work: AsyncGenerator<void, Result>,
): Promise<Result | undefined> {
  let result: Result | undefined;
  async function* runSteps(): AsyncGenerator<void> {
    result = yield* work;
  }
  for await (const _step of slot.limitWhole(runSteps())) {
    await yieldToEventLoop(res);
    if (!isOpen(res)) return undefined;
  }
  return result;
}

/** Interval at which a wait for another thread yields, so that a timeout or a disconnected client is noticed. */
const PAUSE_MS = 50;

/** Waits for work in another thread. Aborts the work if the caller stops iterating. */
export async function* waitForWork<Result>(
  begin: (signal: AbortSignal) => Promise<Result>,
): AsyncGenerator<void, Result> {
  const leaving = new AbortController();
  const work = begin(leaving.signal);
  // After the caller has stopped iterating, nothing else handles a rejection.
  work.catch(() => {});
  const over = () => false;
  const isGoingOn = () => Promise.race([work.then(over, over), pause(PAUSE_MS, true)]);
  try {
    while (await isGoingOn()) yield;
    return await work;
  } finally {
    leaving.abort();
  }
}
