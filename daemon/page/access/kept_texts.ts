/** Texts that the browser keeps for the page. One that lets a page keep nothing has them for as long as it is open. */

export interface KeptTexts {
  get(key: string): string | null;
  /** Keeps a text; null forgets it. */
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
        // The page has it until it is closed.
      }
    },
  };
}
