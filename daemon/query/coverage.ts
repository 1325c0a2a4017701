/** What the recording is missing in a window, in the words of the API. */
import { z } from 'zod';
import { int64 } from '../../bpf/schema/api.ts';
import type { Loss, NodeSpan, Store } from '../store/store.ts';
import { unrecorded } from './unrecorded.ts';

export const coverageSchema = z
  .object({
    complete: z.boolean().meta({ description: 'whether nothing is known to be missing in the window' }),
    lost: z.int().nonnegative().meta({ description: 'events that are missing, as far as they could be counted' }),
    gaps: z.array(
      z.object({
        from: int64().meta({ description: 'nanoseconds since the epoch' }),
        to: int64().meta({ description: 'nanoseconds since the epoch' }),
        lost: z.int().nonnegative().meta({ description: '0 when nobody could count' }),
        cause: z.string().meta({ description: 'why events are missing, such as ring_full or agent_stopped' }),
      }),
    ),
  })
  .meta({ description: 'what the recording is missing in the window of the query' });

export type Coverage = z.infer<typeof coverageSchema>;

export interface Window {
  fromNs?: bigint | undefined;
  toNs?: bigint | undefined;
  nodes?: readonly string[] | undefined;
  /** Nothing later can have been recorded. */
  nowNs: bigint;
}

export function coverageIn(store: Store, { fromNs, toNs, nodes, nowNs }: Window): Coverage {
  return coverageOf(store.losses(fromNs, toNs, nodes), store.spans(nodes), { fromNs, toNs, nodes, nowNs });
}

const byStart = (a: Loss, b: Loss) => (a.fromNs < b.fromNs ? -1 : a.fromNs > b.fromNs ? 1 : 0);

export function coverageOf(losses: readonly Loss[], spans: readonly NodeSpan[], window: Window): Coverage {
  const gaps: Coverage['gaps'] = [];
  for (const { fromNs, toNs, lost, cause } of [...losses, ...unrecorded(spans, window)].sort(byStart)) {
    const open = gaps.findLast((gap) => gap.cause === cause);
    // An agent under load notes a loss at every drain: gaps that touch are one.
    if (open && fromNs <= open.to) {
      open.to = toNs > open.to ? toNs : open.to;
      open.lost += lost;
    } else gaps.push({ from: fromNs, to: toNs, lost, cause });
  }
  return { complete: gaps.length === 0, lost: losses.reduce((sum, { lost }) => sum + lost, 0), gaps };
}
