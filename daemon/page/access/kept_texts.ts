/**
 * Texts that the browser keeps for the page. If the browser denies storage, the texts are kept in memory until the
 * page is closed.
 */

export interface KeptTexts {
  get(key: string): string | null;
  /** Stores the text under the key; null removes the key. */
  set(key: string, text: string | null): void;
}

export function createKeptTexts(name: 'localStorage' | 'sessionStorage'): KeptTexts {
  const texts = new Map<string, string | null>();
  return {
    get(key) {
      try {
        return window[name].getItem(key);
      } catch {
        return texts.get(key) ?? null;
      }
    },
    set(key, text) {
      texts.set(key, text);
      try {
        if (text === null) window[name].removeItem(key);
        else window[name].setItem(key, text);
      } catch {
        // The map above already keeps the text until the page is closed.
      }
    },
  };
}
