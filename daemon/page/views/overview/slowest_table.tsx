/**
 * Lists the slowest of the selected transactions, or the transactions whose ids contain the text of the search field.
 */
import type { ReceivedBurst } from '../../../contract/received.ts';
import { formatName } from '../../../model/wording/names.ts';
import { buildSearchParameters, type LatencyMap, LISTED_MAX, type SlowestTransactions } from '../../map/questions.ts';
import { ListedBursts } from '../bursts.tsx';
import { FailureNote } from '../failure_note.tsx';
import { TransactionTable } from '../transaction_table.tsx';
import { type Search, SearchField, useSearch } from '../use_search.tsx';

interface Props {
  map: LatencyMap;
  slowest: SlowestTransactions;
  /** The shortest duration to show, if the list contains more than the selection; null to show the whole list. */
  leastNs: bigint | null;
  /** Bursts of some of the transactions, by id. */
  bursts: ReadonlyMap<string, readonly ReceivedBurst[]>;
}

export function SlowestTable(props: Props) {
  const search = useSearch(buildSearchParameters(props.map));
  return (
    <>
      <p class="filters">
        <SearchField search={search} />
      </p>
      {search.text.trim() === '' ? <Slowest {...props} /> : <Found search={search} />}
    </>
  );
}

function Found({ search: { found } }: { search: Search }) {
  const { body, failure, askAgain } = found;
  if (failure) return <FailureNote failure={failure} onRetry={askAgain} />;
  if (!body) return <p class="quiet">Searching…</p>;
  const { transactions, next_cursor, part } = body;
  if (transactions.length === 0)
    return (
      <p>
        No id of a transaction of this window and these filters contains {formatName(part)}: a longer window may have
        one.
      </p>
    );
  const count = `${transactions.length}${next_cursor === null ? '' : ' slowest'}`;
  return (
    <TransactionTable caption={`The ${count} whose ids contain ${formatName(part)}`} transactions={transactions} />
  );
}

function Slowest({ map, slowest: { transactions, isCut }, leastNs, bursts }: Props) {
  const selected = transactions.filter(({ duration_ns }) => leastNs === null || BigInt(duration_ns) >= leastNs);
  const shown = selected.slice(0, LISTED_MAX);
  if (shown.length === 0 && !isCut) return <p>No transaction is selected.</p>;
  return (
    <>
      <TransactionTable
        caption={
          <>
            The {shown.length === LISTED_MAX ? `${LISTED_MAX} slowest` : 'slowest'} transactions, by what their callers
            waited for{map.answer.coverage.complete ? '' : ': at least, as events are missing'}
          </>
        }
        transactions={shown}
        renderNote={(transaction) => <ListedBursts of={transaction} known={bursts} />}
      />
      {isCut && <p class="loss">▲ So many are longer than the box that not all of it could be read.</p>}
    </>
  );
}
