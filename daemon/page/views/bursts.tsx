/**
 * Says that the calls of a transaction lie further apart than its own work explains, as when an id is used again, and
 * links each burst of calls.
 */
import { useEffect, useState } from 'preact/hooks';
import type { ReceivedBurst, ReceivedTransaction } from '../../contract/received.ts';
import { formatBurstCount } from '../../model/explanation/bursts.ts';
import { formatShortDuration } from '../../model/wording/exact_times.ts';
import { formatWallClock } from '../numbers/wall_clock.ts';
import { usePage } from './context.ts';
import { TransactionLink } from './transaction_link.tsx';

/** Maximum number of bursts that are linked. */
const LINKED_MAX = 5;

interface Props {
  transaction: string;
  /** Says how many bursts there are. */
  words: string;
  /** Bursts to link, if they are known. */
  bursts: readonly ReceivedBurst[] | undefined;
}

export function BurstLinks({ transaction, words, bursts = [] }: Props) {
  return (
    <span class="loss">
      {' '}
      ▲ {words}
      {bursts.slice(0, LINKED_MAX).map(({ from, to }, at) => (
        <span key={at}>
          {at > 0 ? ', ' : ': '}
          <TransactionLink transaction={transaction} zoom={{ from: BigInt(from), to: BigInt(to) + 1n }}>
            {formatShortDuration(BigInt(to) - BigInt(from))} from {formatWallClock(BigInt(from)).slice(11, 19)} UTC
          </TransactionLink>
        </span>
      ))}
      {bursts.length > LINKED_MAX && ' …'}
    </span>
  );
}

type KnownBursts = ReadonlyMap<string, readonly ReceivedBurst[]>;

/** Says what a list says of a transaction; nothing if it has a single burst, or a number of them that is not known. */
export function ListedBursts({ of, known }: { of: ReceivedTransaction; known: KnownBursts }) {
  const { transaction_id: id, burst_count, bursts_apart_ns } = of;
  // A count that is not known is null, which is not above 1.
  if (!(burst_count! > 1)) return null;
  return (
    <BurstLinks
      transaction={id}
      words={formatBurstCount(burst_count!, BigInt(bursts_apart_ns!))}
      bursts={known.get(id)}
    />
  );
}

/** Maximum number of transactions of a list whose bursts are asked for, and of their events: each needs a request. */
const ASKED_MAX = 5;
const EVENTS_MAX = 100;

/** Returns the bursts of the first transactions of a list that have several, and few events. */
export function useBursts(transactions: readonly ReceivedTransaction[] | undefined): KnownBursts {
  const { daemon } = usePage();
  const [known, setKnown] = useState<KnownBursts>(new Map());
  useEffect(() => {
    const closing = new AbortController();
    const ask = async () => {
      const several = transactions?.filter((one) => one.burst_count! > 1 && one.event_count <= EVENTS_MAX) ?? [];
      for (const { transaction_id } of several.slice(0, ASKED_MAX)) {
        const path = `/api/transactions/${encodeURIComponent(transaction_id)}/explain?limit=1`;
        const { bursts } = await daemon.askJson<{ bursts: ReceivedBurst[] }>(path, { signal: closing.signal });
        setKnown((before) => new Map(before).set(transaction_id, bursts));
      }
    };
    // Without an answer, the list says how many bursts there are, and links none; the transaction itself does.
    ask().catch(() => {});
    return () => closing.abort();
  }, [daemon, transactions]);
  return known;
}
