/**
 * Copies of a fleet's transactions on this disk. The least recently used copies are removed when all copies together
 * take too much space.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import type { Fleet } from '../../store/fleet/fleet.ts';
import type { TransactionSummary } from '../../store/store.ts';
import { copyTransactions } from './copy.ts';

export interface Copy {
  /** Paths of the recordings that the copy consists of. */
  paths: string[];
  /** Releases the copy, so that it may be removed when it is the least recently used copy. */
  release(): void;
}

export interface Copies {
  /** Copies the transactions, or returns an existing copy. Rejects soon after `signal` aborts. */
  take(transactions: readonly TransactionSummary[], signal: AbortSignal): Promise<Copy>;
}

/** Prefix of the folders of copies that are being written. */
const UNFINISHED = '.new-';

export function openCopies(fleet: Fleet, folder: string, bytesMax: number): Copies {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const name of readdirSync(folder).filter((one) => one.startsWith(UNFINISHED)))
    rmSync(join(folder, name), { recursive: true, force: true });
  const held = new Map<string, number>();
  const made = new Map<string, { done: Promise<void>; signal: AbortSignal }>();

  async function make(name: string, transactions: readonly TransactionSummary[], signal: AbortSignal): Promise<void> {
    if (statSync(join(folder, name), { throwIfNoEntry: false })) return;
    const unfinished = mkdtempSync(join(folder, UNFINISHED));
    try {
      await copyTransactions(fleet, transactions, unfinished, signal);
      renameSync(unfinished, join(folder, name));
    } finally {
      rmSync(unfinished, { recursive: true, force: true });
    }
  }

  /**
   * Makes a copy that concurrent callers share. The first caller makes the copy; if that caller gives up, another
   * caller makes it.
   */
  async function ensure(name: string, transactions: readonly TransactionSummary[], signal: AbortSignal): Promise<void> {
    for (;;) {
      const known = made.get(name);
      const making = known ?? { done: make(name, transactions, signal).finally(() => made.delete(name)), signal };
      made.set(name, making);
      try {
        return await making.done;
      } catch (error) {
        if (signal.aborted || !making.signal.aborted) throw error;
      }
    }
  }

  function removeOldest(): void {
    const found = readdirSync(folder)
      .filter((name) => !name.startsWith(UNFINISHED))
      .map((name) => ({ name, ...readFolderUsage(join(folder, name)) }))
      .sort((a, b) => b.usedMs - a.usedMs);
    let bytes = 0;
    for (const copy of found) {
      bytes += copy.bytes;
      if (bytes > bytesMax && !held.has(copy.name)) rmSync(join(folder, copy.name), { recursive: true, force: true });
    }
  }

  function release(name: string): void {
    const count = held.get(name)! - 1;
    if (count === 0) held.delete(name);
    else held.set(name, count);
    removeOldest();
  }

  return {
    async take(transactions, signal) {
      const name = nameCopy(transactions);
      held.set(name, (held.get(name) ?? 0) + 1);
      try {
        await ensure(name, transactions, signal);
        const path = join(folder, name);
        utimesSync(path, new Date(), new Date());
        removeOldest();
        let isHeld = true;
        return {
          paths: readdirSync(path).map((file) => join(path, file)),
          release() {
            if (isHeld) release(name);
            isHeld = false;
          },
        };
      } catch (error) {
        release(name);
        throw error;
      }
    },
  };
}

/** Names a copy. The name changes when more events of a transaction have arrived. */
function nameCopy(transactions: readonly TransactionSummary[]): string {
  const hash = createHash('sha256');
  for (const { transactionId, eventCount, firstTimestampNs, lastEndNs, errorCount, writtenBack } of transactions) {
    const parts = [transactionId, eventCount, firstTimestampNs, lastEndNs, errorCount, writtenBack.count];
    hash.update(`${JSON.stringify(parts.map(String))}\n`);
  }
  return hash.digest('hex').slice(0, 40);
}

function readFolderUsage(folder: string): { bytes: number; usedMs: number } {
  const bytes = readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
  return { bytes, usedMs: statSync(folder).mtimeMs };
}
