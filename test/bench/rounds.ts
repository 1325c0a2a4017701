/** Runs interleaved rounds (A B C, A B C, ...): changes on the machine then affect all alike. */

export async function interleaved<Name extends string, Measured>(
  names: readonly Name[],
  rounds: number,
  measure: (name: Name, round: number) => Promise<Measured>,
): Promise<Record<Name, Measured[]>> {
  const measured = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, Measured[]>;
  for (let round = 0; round < rounds; round++) {
    for (const name of names) measured[name].push(await measure(name, round));
  }
  return measured;
}
