/** Mulberry32: a run can be repeated from its seed. */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function shuffled<Item>(items: readonly Item[], random: () => number): Item[] {
  const order = items.map((item) => ({ item, at: random() }));
  return order.sort((a, b) => a.at - b.at).map(({ item }) => item);
}
