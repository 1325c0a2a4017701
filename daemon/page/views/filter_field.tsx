/** The filters that are set, each with a way to drop it, and a field to type more. */
import { useId, useRef, useState } from 'preact/hooks';
import { filterText, readFilters } from '../link/filter_text.ts';
import { filtersOf, withoutValue } from '../link/filters.ts';
import { FILTERED } from '../link/link.ts';
import { usePage } from './context.ts';
import { useKeys } from './keys.ts';
import { shownName } from './names.ts';

/** Values that the daemon knows, by the name of the filter. */
export type KnownValues = ReadonlyMap<string, readonly string[]>;

const SUGGESTIONS_MAX = 100;

export function FilterField({ known }: { known: KnownValues }) {
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
        {suggestions(text, known).map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      {filtersOf(link).map(({ name, value }) => (
        <button
          type="button"
          class="pill"
          key={`${name} ${value}`}
          onClick={() => go(withoutValue(link, name, value))}
          title="drop this filter"
        >
          {shownName(filterText(name, value))} ×<span class="spoken">drop this filter</span>
        </button>
      ))}
      {problems.length > 0 && (
        <p class="failure" role="alert">
          {problems.map(shownName).join('; ')}
        </p>
      )}
    </form>
  );
}

/** Completions of the last word, with the words before it: names at first, then values of that name. */
function suggestions(text: string, known: KnownValues): string[] {
  const from = text.lastIndexOf(' ') + 1;
  const [before, word] = [text.slice(0, from), text.slice(from)];
  const minus = word.startsWith('-') ? '-' : '';
  const [name, value] = word.slice(minus.length).split(':', 2);
  if (value === undefined) return FILTERED.map((one) => `${before}${minus}${one}:`);
  const values = (known.get(name!) ?? []).filter((one) => one.startsWith(value));
  return values.slice(0, SUGGESTIONS_MAX).map((one) => `${before}${minus}${filterText(name!, one)}`);
}
