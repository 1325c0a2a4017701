/** The context of every view: the daemon, the link, and how to change the link. */

import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Access, ReceivedCoverage } from '../../contract/received.ts';
import type { Daemon } from '../api/daemon.ts';
import type { Link } from '../link/link.ts';

export interface PageContext {
  daemon: Daemon;
  link: Link;
  /**
   * Changes the link. `isNewEntry` says whether the change makes a new entry in the browser's history; by default, only
   * a change to another view does.
   */
  go: (change: Partial<Link>, isNewEntry?: boolean) => void;
  access: Access;
  /** Makes a screen reader say a sentence. */
  announce: (sentence: string) => void;
  /** Passes the coverage of the shown data to the top bar. */
  setCoverage: (coverage: ReceivedCoverage | null) => void;
  /** Shows a sentence in the title of the browser's tab; null removes the sentence. */
  setSentence: (sentence: string | null) => void;
}

export const PageState = createContext<PageContext | null>(null);

export function usePage(): PageContext {
  return useContext(PageState)!;
}
