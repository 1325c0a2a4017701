/** Keeps the link in the browser's address, and follows the browser's Back and Forward buttons. */
import { formatLink, type Link, type ParsedLink, parseLink } from './link.ts';

/**
 * Delay before the address is written: browsers refuse more than a few hundred changes of an address in half a minute.
 */
const WRITE_AFTER_MS = 150;

export interface Address {
  read(): ParsedLink;
  /**
   * Changes the address: a new view becomes a new entry of the history, and any other change replaces the present
   * entry.
   */
  write(link: Link, isNewEntry: boolean): void;
  /** Calls `moved` when the user changes the address; returns a function that ends these calls. */
  onMove(moved: (parsed: ParsedLink) => void): () => void;
}

export function createAddress(page: Window = window): Address {
  let timer: number | undefined;
  let waiting: Link | null = null;
  const buildAddress = (link: Link) => `${page.location.pathname}${formatLink(link)}`;
  const replace = () => {
    if (waiting) page.history.replaceState(null, '', buildAddress(waiting));
    waiting = null;
  };
  return {
    read: () => parseLink(page.location.hash),
    write(link, isNewEntry) {
      page.clearTimeout(timer);
      if (isNewEntry) {
        // The waiting change is written first, so that the Back button shows the view as the user left it.
        replace();
        page.history.pushState(null, '', buildAddress(link));
        return;
      }
      waiting = link;
      timer = page.setTimeout(replace, WRITE_AFTER_MS);
    },
    onMove(moved) {
      const listener = () => {
        page.clearTimeout(timer);
        waiting = null;
        moved(parseLink(page.location.hash));
      };
      page.addEventListener('popstate', listener);
      page.addEventListener('hashchange', listener);
      return () => {
        page.removeEventListener('popstate', listener);
        page.removeEventListener('hashchange', listener);
      };
    },
  };
}
