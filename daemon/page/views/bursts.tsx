/**
 * Warns that a transaction has several bursts of calls with long gaps between them, for example because its id was used
 * twice, and links to each burst.
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
  /** The number of bursts, in words. */
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

/**
 * Shows the note about bursts for a transaction in a list; nothing if the transaction has a single burst, or if the
 * number of its bursts is unknown.
 */
export function ListedBursts({ of, known }: { of: ReceivedTransaction; known: KnownBursts }) {
  const { transaction_id: id, burst_count, bursts_apart_ns } = of;
  // An unknown count is null, and `null > 1` is false.
  if (!(burst_count! > 1)) return null;
  return (
    <BurstLinks
      transaction={id}
      words={formatBurstCount(burst_count!, BigInt(bursts_apart_ns!))}
      bursts={known.get(id)}
    />
  );
}

/** Maximum number of transactions whose bursts are requested: each transaction needs its own request. */
const ASKED_MAX = 5;
/**
 * Maximum number of events of a transaction whose bursts are requested: the daemon reads all its events for the answer.
 */
const EVENTS_MAX = 100;

/**
 * Returns the bursts of the first `ASKED_MAX` transactions that have several bursts and at most `EVENTS_MAX` events.
 */
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
    // A failure is ignored: the list then shows the number of bursts without links, and the transaction's own view has
    // the links.
    ask().catch(() => {});
    return () => closing.abort();
  }, [daemon, transactions]);
  return known;
}
