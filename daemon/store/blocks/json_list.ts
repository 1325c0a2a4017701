export interface JsonList {
  add(json: string): void;
  /** Returns all values as the text of an array or an object, and forgets them; undefined without any. */
  take(): string | undefined;
  /** Length of the values' texts. */
  readonly length: number;
}

/** Gathers values that are JSON already; `open` and `close` are the brackets around them. */
export function jsonList(open = '[', close = ']'): JsonList {
  let values: string[] = [];
  let length = 0;
  return {
    add(json) {
      values.push(json);
      length += json.length;
    },
    take() {
      if (values.length === 0) return undefined;
      const all = `${open}${values.join(',')}${close}`;
      values = [];
      length = 0;
      return all;
    },
    get length() {
      return length;
    },
  };
}
