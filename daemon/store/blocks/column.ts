import type { ColumnArray, NumberedBlock } from '../../../bpf/schema/block.ts';

type Big = BigUint64Array | BigInt64Array;
type Small = Exclude<ColumnArray, Big>;

function anyColumn(block: NumberedBlock, name: string): ColumnArray {
  const values = block.columns.get(name);
  if (!values) throw new Error(`the scan left out column ${name}`);
  return values;
}

export function column(block: NumberedBlock, name: string): Small {
  return anyColumn(block, name) as Small;
}

/** Returns a 64-bit column. */
export function bigColumn(block: NumberedBlock, name: string): Big {
  return anyColumn(block, name) as Big;
}
