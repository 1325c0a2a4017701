/**
 * Chooses what the page shows: services, nodes, all other filters, a window of time, and whether only transactions with
 * failed calls are shown.
 */
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { filterText, readFilters } from '../link/filter_text.ts';
import { dropFilterValue, listFilters } from '../link/filters.ts';
import { FILTERED } from '../link/link.ts';
import { usePage } from './context.ts';
import { useKeys } from './keys.ts';
import { formatName } from './names.ts';

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
    <>
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
            {(link.from !== null || link.to !== null) && <option value="set">as in the link</option>}
            {WINDOWS.map(([label, minutes]) => (
              <option key={label} value={minutes.toString()}>
                {label}
              </option>
            ))}
          </select>
        </label>
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
    </>
  );
}

/**
 * Returns the values that the daemon knows. Until the daemon has answered, or if it fails, the fields offer only the
 * values of the link.
 */
function useKnownValues(): KnownValues {
  const { daemon } = usePage();
  const [known, setKnown] = useState<KnownValues>(new Map());
  useEffect(() => {
    const add = (name: string, values: Promise<readonly string[]>) =>
      values.then(
        (some) => setKnown((before) => new Map(before).set(name, some)),
        // The view itself reports that the daemon is unreachable.
        () => {},
      );
    const types = daemon.askJson<{ event_types: { name: string }[] }>('/api/event-types');
    void add(
      'service',
      daemon.askJson<{ services: string[] }>('/api/services').then(({ services }) => services),
    );
    void add(
      'node',
      daemon.askJson<{ nodes: string[] }>('/api/nodes').then(({ nodes }) => nodes),
    );
    void add(
      'event_type',
      types.then(({ event_types }) => event_types.map(({ name }) => name)),
    );
  }, [daemon]);
  return known;
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
    if (key === '/') field.current?.focus();
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
 * Lists completions of the last word, each with the words before it: filter names at first, and values once the word
 * names a filter.
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
