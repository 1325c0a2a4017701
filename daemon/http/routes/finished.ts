/** Runs work that an answer needs whole, in steps between which other requests are served. */
import type { Response } from 'express';
import { nextPiece } from '../../pace.ts';
import type { Scan } from '../access/scan_gate.ts';
import { isOpen } from '../ndjson.ts';

/** Resolves to undefined if the client has disconnected. */
export async function finished<Result>(
  res: Response,
  turn: Scan,
  work: AsyncGenerator<void, Result>,
): Promise<Result | undefined> {
  let result: Result | undefined;
  async function* steps(): AsyncGenerator<void> {
    result = yield* work;
  }
  for await (const _step of turn.whole(steps())) {
    await nextPiece();
    if (!isOpen(res)) return undefined;
  }
  return result;
}
