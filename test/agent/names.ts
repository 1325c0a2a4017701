/** Numbers for texts, as the recording gives them, and the way back for the test's eyes. */
export interface Names {
  /** 0 for the empty text, as in a recording: unknown. */
  intern(text: string): number;
  text(id: number): string | null;
  /** Every text gets a new number when it is asked for again; the old ones still say what they said. */
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
