/** Compares what was recorded of each written block with its owner by the programs' own account. */
import type { BlockIoEvent } from '../../../bpf/schema/api.ts';
import { BLOCK_BYTES } from './extents.ts';

const SECTORS = BLOCK_BYTES / 512;

/** Counts of blocks. */
export interface Account {
  /** The block's request has one owner, which is the block's. */
  right: number;
  /** The block's request names its owner as one of several. */
  shared: number;
  /** The answer says that the owner may be another one. */
  ambiguous: number;
  /** The answer says that the owner is unknown. */
  unknown: number;
  /** The block is charged to another owner, without a doubt. */
  wrong: number;
  /** No request that wrote the block is recorded. */
  unseen: number;
}

export const NOTHING: Account = { right: 0, shared: 0, ambiguous: 0, unknown: 0, wrong: 0, unseen: 0 };

/** `owners` maps blocks of the device. `requests` are in the order of their ends: the last to write a block counts. */
export function accountOf(owners: ReadonlyMap<number, string>, requests: readonly BlockIoEvent[]): Account {
  const last = new Map<number, BlockIoEvent>();
  for (const request of requests) for (const block of blocksIn(request)) last.set(block, request);
  const account = { ...NOTHING };
  for (const [block, owner] of owners) {
    const request = last.get(block);
    account[request ? verdict(request, owner) : 'unseen']++;
  }
  return account;
}

function verdict({ transaction_id, attribution, origins, unnamed_bytes }: BlockIoEvent, owner: string): keyof Account {
  if (transaction_id !== null) {
    if (transaction_id === owner) return 'right';
    return attribution.quality === 'ambiguous' ? 'ambiguous' : 'wrong';
  }
  if (origins.some((origin) => origin.transaction_id === owner)) return 'shared';
  const isWhole = unnamed_bytes === 0n && origins.length > 0;
  return isWhole && origins.every((origin) => origin.transaction_id !== null) ? 'wrong' : 'unknown';
}

export function* blocksIn({ sector, bytes }: BlockIoEvent): Generator<number> {
  const first = Number(sector) / SECTORS;
  for (let at = 0; at < Number(bytes) / BLOCK_BYTES; at++) yield first + at;
}

/** Bytes that requests charge to a transaction, without a doubt, beyond those of its own blocks in them. */
export function overcharged(owners: ReadonlyMap<number, string>, requests: readonly BlockIoEvent[]): number {
  let sum = 0;
  for (const request of requests) {
    const blocks = [...blocksIn(request)].map((block) => owners.get(block));
    // A request with a block whose owner is not in the account cannot be judged.
    if (request.attribution.quality === 'ambiguous' || blocks.includes(undefined)) continue;
    for (const { transaction_id, bytes } of request.origins) {
      if (transaction_id === null) continue;
      const own = blocks.filter((owner) => owner === transaction_id).length * BLOCK_BYTES;
      sum += Math.max(0, Number(bytes) - own);
    }
  }
  return sum;
}
