/** Compares two transactions, windows or reports. */
import { useState } from 'preact/hooks';
import type { Link } from '../../link/link.ts';
import { usePage } from '../context.ts';
import { WindowForm } from '../window_form.tsx';
import { Reports } from './reports.tsx';
import { Transactions } from './transactions.tsx';
import { Windows } from './windows.tsx';

const TITLES = { transactions: 'Transactions', windows: 'Windows of time', reports: 'Reports of runs' };
type ComparisonKind = keyof typeof TITLES;

/** Chooses the kind of comparison that a link names; null if the link names nothing to compare. */
function chooseKind({ other, other_from, other_to, transaction }: Link): ComparisonKind | null {
  if (other !== null) return 'transactions';
  if (other_from !== null || other_to !== null) return 'windows';
  return transaction !== null ? 'transactions' : null;
}

const buildComparedKey = ({ transaction, other, other_from, other_to }: Link) =>
  [transaction, other, other_from, other_to].join('\n');

/** Link fields to clear when a kind is chosen, because they belong to another kind of comparison. */
const CHANGES: Readonly<Record<ComparisonKind, Partial<Link>>> = {
  transactions: { other_from: null, other_to: null },
  windows: { other: null },
  reports: {},
};

export function Compare() {
  const { link, go } = usePage();
  /**
   * The kind that the user chose, and what the link compared at that time. When the link names another comparison, the
   * link determines the kind.
   */
  const [chosen, setChosen] = useState<{ kind: ComparisonKind; compared: string } | null>(null);
  const kind = (chosen?.compared === buildComparedKey(link) && chosen.kind) || chooseKind(link) || 'transactions';
  const choose = (next: ComparisonKind) => {
    const change = CHANGES[next];
    setChosen({ kind: next, compared: buildComparedKey({ ...link, ...change }) });
    go(change, false);
  };
  return (
    <main>
      <fieldset class="controls" aria-label="What is compared">
        {(Object.keys(TITLES) as ComparisonKind[]).map((one) => (
          <button type="button" key={one} aria-pressed={one === kind} onClick={() => choose(one)}>
            {TITLES[one]}
          </button>
        ))}
      </fieldset>
      {kind === 'transactions' && <Transactions />}
      {kind === 'windows' && (
        <>
          <WindowForm />
          <Windows />
        </>
      )}
      {kind === 'reports' && <Reports />}
    </main>
  );
}
