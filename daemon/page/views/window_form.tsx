/**
 * Chooses what the page shows: services, nodes, all other filters, a window of time, and whether only transactions with
 * failed calls are shown.
 */
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { TransactionList } from '../../contract/received.ts';
import { formatName } from '../../model/wording/names.ts';
import { filterText, readFilters } from '../link/filter_text.ts';
import { dropFilterValue, listFilters } from '../link/filters.ts';
import { FILTERED } from '../link/link.ts';
import { Bounds, ZoomOut } from './bounds.tsx';
import { usePage } from './context.ts';
import { Fold } from './fold.tsx';
import { useKeys } from './keys.ts';

const MINUTE_NS = 60_000_000_000n;
const WINDOWS: readonly (readonly [label: string, minutes: bigint])[] = [
  ['last 5 minutes', 5n],
  ['last 15 minutes', 15n],
  ['last hour', 60n],
  ['last day', 1440n],
];

export function WindowForm() {
  const { link, go } = usePage();
  const known = useKnownValues();
  const chooseWindow = (minutes: string) => {
    if (minutes === '') return go({ from: null, to: null });
    const nowNs = BigInt(Date.now()) * 1_000_000n;
    go({ from: nowNs - BigInt(minutes) * MINUTE_NS, to: null });
  };
  const renderChoice = (name: 'service' | 'node', label: string, all: string) => (
    <Choice
      {...{ label, all, values: known.get(name) ?? [] }}
      chosen={link[name]}
      onChoose={(value) => go({ [name]: value === null ? [] : [value] })}
    />
  );
  return (
    <Fold title="Window and filters">
      <div class="filters">
        {renderChoice('service', 'Service', 'all services')}
        {renderChoice('node', 'Node', 'all nodes')}
        <label>
          Window
          <select
            value={link.from === null && link.to === null ? '' : 'set'}
            onChange={({ currentTarget }) => chooseWindow(currentTarget.value)}
          >
            <option value="">everything recorded</option>
            {(link.from !== null || link.to !== null) && <option value="set">from and to</option>}
            {WINDOWS.map(([label, minutes]) => (
              <option key={label} value={minutes.toString()}>
                {label}
              </option>
            ))}
          </select>
        </label>
        {/* The times are folded, because each time field needs eight presses of the Tab key. */}
        <details>
          <summary>Times</summary>
          <div class="filters">
            <Bounds names={['from', 'to']} />
          </div>
        </details>
        <ZoomOut />
        <label>
          <input
            type="checkbox"
            checked={link.has_error}
            onChange={({ currentTarget }) => go({ has_error: currentTarget.checked })}
          />
          with failed calls only
        </label>
      </div>
      <FilterField known={known} />
    </Fold>
  );
}

/**
 * Returns the values that the daemon knows, by filter. Until the daemon has answered, or if a request fails, the
 * fields offer only the values of the link.
 */
function useKnownValues(): KnownValues {
  const { daemon } = usePage();
  const [known, setKnown] = useState<KnownValues>(new Map());
  useEffect(() => {
    const closing = new AbortController();
    const ask: Ask = (path) => daemon.askJson(path, { signal: closing.signal });
    const set = (name: string, values: readonly string[]) => setKnown((before) => new Map(before).set(name, values));
    // Failures are ignored, because the view itself reports them.
    const ignore = () => {};
    listServices(ask, (services) => set('service', services)).catch(ignore);
    ask<{ nodes: string[] }>('/api/nodes').then(({ nodes }) => set('node', nodes), ignore);
    ask<{ event_types: { name: string }[] }>('/api/event-types').then(
      ({ event_types }) =>
        set(
          'event_type',
          event_types.map(({ name }) => name),
        ),
      ignore,
    );
    return () => closing.abort();
  }, [daemon]);
  return known;
}

type Ask = <Body>(path: string) => Promise<Body>;

/** Only recent events are counted, because counting all events may take long. */
const COUNTS = '/api/stats?group_by=service&from=-30s';

/** Numbers of recent events by service. They are counted once, and not for each view. */
let counts: ReadonlyMap<string, number> | undefined;

/**
 * Calls `onServices` twice: first with the services in order of their names; then with the services of the latest
 * transactions first, followed by the others by their number of recent events. The order matters, because every
 * executable of a host is a service.
 */
async function listServices(ask: Ask, onServices: (services: readonly string[]) => void): Promise<void> {
  const { services } = await ask<{ services: string[] }>('/api/services');
  onServices(services);
  const { transactions } = await ask<TransactionList>('/api/transactions');
  if (!counts) {
    const { stats } = await ask<{ stats: { group: { service: string }; count: number }[] }>(COUNTS);
    counts = new Map(stats.map(({ group, count }) => [group.service, count]));
  }
  const labelled = new Set(transactions.flatMap((one) => one.services));
  const rank = (name: string) => (labelled.has(name) ? Number.MAX_VALUE : (counts!.get(name) ?? 0));
  onServices(services.toSorted((a, b) => rank(b) - rank(a)));
}

interface ChoiceProps {
  label: string;
  all: string;
  values: readonly string[];
  chosen: readonly string[];
  onChoose: (value: string | null) => void;
}

function Choice({ label, all, values, chosen, onChoose }: ChoiceProps) {
  const [value] = chosen;
  const shown = value === undefined || values.includes(value) ? values : [value, ...values];
  return (
    <label>
      {label}
      <select
        value={chosen.length > 1 ? 'several' : (value ?? '')}
        onChange={({ currentTarget }) => onChoose(currentTarget.value || null)}
      >
        <option value="">{all}</option>
        {chosen.length > 1 && (
          <option value="several" disabled>
            {chosen.length} chosen
          </option>
        )}
        {shown.map((name) => (
          <option key={name} value={name}>
            {formatName(name)}
          </option>
        ))}
      </select>
    </label>
  );
}

/* Shows the filters that are set, each with a button to remove it, and a field to type further filters. */

/** Values that the daemon knows, by the name of the filter. */
type KnownValues = ReadonlyMap<string, readonly string[]>;

const SUGGESTIONS_MAX = 100;

function FilterField({ known }: { known: KnownValues }) {
  const { link, go, announce } = usePage();
  const [text, setText] = useState('');
  const [problems, setProblems] = useState<readonly string[]>([]);
  const field = useRef<HTMLInputElement>(null);
  const list = useId();
  useKeys((key) => {
    if (key === '/') {
      field.current!.closest('details')!.open = true;
      field.current!.focus();
    }
    return key === '/';
  });
  const apply = (event: Event) => {
    event.preventDefault();
    const read = readFilters(text, link, BigInt(Date.now()) * 1_000_000n);
    setProblems(read.problems);
    if (read.problems.length > 0) return announce(read.problems.join('; '));
    go(read.change);
    setText('');
  };
  return (
    <form class="filters" onSubmit={apply}>
      <label>
        Filter
        <input
          ref={field}
          type="text"
          value={text}
          list={list}
          size={26}
          spellcheck={false}
          autocomplete="off"
          placeholder="service:shop -device:vda"
          aria-keyshortcuts="/"
          aria-invalid={problems.length > 0}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </label>
      <datalist id={list}>
        {listSuggestions(text, known).map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      {listFilters(link).map(({ name, value }) => (
        <button
          type="button"
          class="pill"
          key={`${name} ${value}`}
          onClick={() => go(dropFilterValue(link, name, value))}
          title="drop this filter"
        >
          {formatName(filterText(name, value))} ×<span class="spoken">drop this filter</span>
        </button>
      ))}
      {problems.length > 0 && (
        <p class="failure" role="alert">
          {problems.map(formatName).join('; ')}
        </p>
      )}
    </form>
  );
}

/**
 * Lists completions of the last word, each with the text before that word. The completions are filter names or, after
 * a name and a colon, the filter's values.
 */
function listSuggestions(text: string, known: KnownValues): string[] {
  const from = text.lastIndexOf(' ') + 1;
  const before = text.slice(0, from);
  const word = text.slice(from);
  const minus = word.startsWith('-') ? '-' : '';
  const [name, value] = word.slice(minus.length).split(':', 2);
  if (value === undefined) return FILTERED.map((one) => `${before}${minus}${one}:`);
  const values = (known.get(name!) ?? []).filter((one) => one.startsWith(value));
  return values.slice(0, SUGGESTIONS_MAX).map((one) => `${before}${minus}${filterText(name!, one)}`);
}
