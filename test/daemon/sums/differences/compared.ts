/** Asks for what sets a box apart, and reads the answer. */
import { parseJson } from '../../../../daemon/base/exact_json.ts';
import type { Served } from '../../served.ts';

export interface Value {
  field: string;
  value: string;
  device?: string;
  selected: number;
  others: number;
}

interface Times {
  duration_ns: number;
  breakdown: Record<string, number>;
}

export interface Side extends Times {
  count: number;
  median: Times;
}

export interface Answer {
  window: { from: number | bigint | null; to: number | bigint | null; narrowed: boolean };
  selected: Side;
  others: Side;
  event_count: number;
  too_few: boolean;
  differences: { values: Value[] }[];
  equal: string[];
  left_out: string[];
  tried: number;
}

export async function ask(daemon: Served, parameters: string): Promise<Answer> {
  const { status, text } = await daemon.get(`/api/differences?${parameters}`);
  expect([status, status === 200 ? '' : text]).toEqual([200, '']);
  return parseJson(text) as Answer;
}
