/** Maps texts to ids as the recording does, and back. */
export interface Names {
  /** Returns 0 for the empty text, which means unknown, as in a recording. */
  intern(text: string): number;
  text(id: number): string | null;
  /** Makes every text get a new id when it is interned again; the old ids keep their texts. */
  forget(): void;
}

export function createNames(): Names {
  const texts: string[] = [];
  let forgotten = 0;
  return {
    intern(text) {
      if (text === '') return 0;
      const known = texts.indexOf(text, forgotten);
      return known >= 0 ? known + 1 : texts.push(text);
    },
    text: (id) => texts[id - 1] ?? null,
    forget() {
      forgotten = texts.length;
    },
  };
}
