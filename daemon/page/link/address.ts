/** Keeps the link in the browser's address, and follows its Back and Forward. */
import { formatLink, type Link, type ParsedLink, parseLink } from './link.ts';

/** Browsers refuse an address that changes more often than some hundred times in half a minute. */
const WRITE_AFTER_MS = 150;

export interface Address {
  read(): ParsedLink;
  /** Changes the address: a new view becomes an entry of the history, another change replaces the present one. */
  write(link: Link, isNewEntry: boolean): void;
  /** Calls `moved` when the user changes the address; returns a function that stops this. */
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
        // Back is to show the view as it was left.
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
