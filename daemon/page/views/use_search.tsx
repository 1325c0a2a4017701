/** A field for a part of an id, and the transactions whose ids contain the part. */
import { useEffect, useState } from 'preact/hooks';
import type { TransactionList } from '../../contract/received.ts';
import { usePage } from './context.ts';
import { type Answer, useAnswer } from './use_answer.ts';

/** Time without typing after which the daemon is asked. */
const REST_MS = 200;
const FOUND_MAX = 50;

export interface Found extends TransactionList {
  /** The text that the ids contain; empty if the request asked for all transactions. */
  part: string;
}

export interface Search {
  text: string;
  setText: (text: string) => void;
  found: Answer<Found>;
}

/**
 * Lists the transactions that the parameters select and whose ids contain the text of the field. Without text, lists
 * all selected transactions if `listsAll` is set, and otherwise sends no request.
 */
export function useSearch(parameters: string, listsAll = false): Search {
  const { daemon } = usePage();
  const [text, setText] = useState('');
  const [asked, setAsked] = useState('');
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text.trim()), REST_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const part = asked === '' ? '' : `&q=${encodeURIComponent(asked)}`;
  const path = part === '' && !listsAll ? null : `/api/transactions?${parameters}&limit=${FOUND_MAX}${part}`;
  const ask = async (signal: AbortSignal) => {
    const list = await daemon.askJson<TransactionList>(path!, { signal });
    return { ...list, part: asked };
  };
  return { text, setText, found: useAnswer(path, ask) };
}

export function SearchField({ search: { text, setText } }: { search: Search }) {
  return (
    <label>
      Search
      <input
        type="search"
        value={text}
        placeholder="a part of an id"
        spellcheck={false}
        autocomplete="off"
        onInput={({ currentTarget }) => setText(currentTarget.value)}
      />
    </label>
  );
}
