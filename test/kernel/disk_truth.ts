/** Compares the owner of each block, as the disk itself shows it, with the recorded owner of its request. */
import { closeSync, openSync, readSync } from 'node:fs';
import type { BlockIoEvent } from '../../bpf/schema/api.ts';

const SECTOR_BYTES = 512n;
const BLOCK_BYTES = 4096;

/** Counts blocks of 4096 bytes that patterned_writes.py or fio marked with a transaction. */
export interface TruthTable {
  /**
   * The block's owner is the request's only owner; or the request has blocks of several owners, because the kernel
   * merged requests of neighbouring blocks, and names these owners and no others.
   */
  right: number;
  /** The block's owner is one of several that share the request, all of them named. */
  shared: number;
  none: number;
  /** The request names an owner, but not the block's. */
  wrong: number;
  /** The requests of the blocks that are shared, without an owner, or wrong: what a failure has to show. */
  doubtful: { request: BlockIoEvent; transactions: string[] }[];
}

/** Judges the blocks that the requests carried; only the last request that wrote a block is judged for it. */
export function truthOf(devicePath: string, requests: readonly BlockIoEvent[]): TruthTable {
  const table: TruthTable = { right: 0, shared: 0, none: 0, wrong: 0, doubtful: [] };
  const device = openSync(devicePath, 'r');
  const isLast = lastWrites(requests);
  try {
    for (const request of requests) {
      const transactions = readTransactions(device, request, isLast);
      const verdicts = transactions.map((transaction) => judge(request, transaction, transactions));
      for (const verdict of verdicts) table[verdict]++;
      if (verdicts.some((verdict) => verdict !== 'right')) table.doubtful.push({ request, transactions });
    }
  } finally {
    closeSync(device);
  }
  return table;
}

/** Returns the transaction of each marked block that no later request wrote. */
function readTransactions(device: number, request: BlockIoEvent, isLast: ReturnType<typeof lastWrites>): string[] {
  const transactions: string[] = [];
  const bytes = Buffer.alloc(Number(request.bytes));
  readSync(device, bytes, 0, bytes.length, request.sector * SECTOR_BYTES);
  for (let at = 0; at + BLOCK_BYTES <= bytes.length; at += BLOCK_BYTES) {
    const transaction = /^<([\w-]+)>/.exec(bytes.toString('latin1', at, at + 64))?.[1];
    if (transaction && isLast(request, at)) transactions.push(transaction);
  }
  return transactions;
}

function judge(
  { transaction_id, origins, bytes }: BlockIoEvent,
  transaction: string,
  transactions: readonly string[],
): Exclude<keyof TruthTable, 'doubtful'> {
  if (transaction_id !== null) return transaction_id === transaction ? 'right' : 'wrong';
  const named = origins.map((origin) => origin.transaction_id).filter((id) => id !== null);
  const allMarked = transactions.length * BLOCK_BYTES === Number(bytes);
  if (allMarked && new Set(transactions).size > 1 && isSameSet(named, transactions)) return 'right';
  if (named.includes(transaction)) return 'shared';
  // A request names four owners at most; if there are more, the others are missing from it.
  return named.length === 0 || named.length === 4 ? 'none' : 'wrong';
}

function isSameSet(a: readonly string[], b: readonly string[]): boolean {
  return a.every((element) => b.includes(element)) && b.every((element) => a.includes(element));
}

function lastWrites(requests: readonly BlockIoEvent[]): (request: BlockIoEvent, at: number) => boolean {
  const last = new Map<bigint, BlockIoEvent>();
  const placeOf = ({ sector }: BlockIoEvent, at: number) => sector + BigInt(at) / SECTOR_BYTES;
  for (const request of requests) {
    for (let at = 0; at < request.bytes; at += BLOCK_BYTES) last.set(placeOf(request, at), request);
  }
  return (request, at) => last.get(placeOf(request, at)) === request;
}
