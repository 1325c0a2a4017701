/** Writes what follows a position in the store as frames of a live tail. */
import { stringify } from '../base/exact_json.ts';
import { formatFrame } from '../base/sse.ts';
import type { Followed, FollowedBatch, FollowRequest, Store } from '../store/store.ts';

/** The id of each frame is the position after it. */
export interface Frames extends Omit<FollowedBatch, 'followed'> {
  text: string;
}

/** Resolves to undefined if `signal` aborts. */
export async function framesAfter(
  store: Store,
  request: FollowRequest,
  signal: AbortSignal,
): Promise<Frames | undefined> {
  const batch = await store.follow(request, signal);
  if (!batch) return undefined;
  const { followed, ...rest } = batch;
  return { ...rest, text: followed.map(frameOf).join('') };
}

function frameOf(followed: Followed): string {
  if (followed.kind === 'lost') {
    const { fromNs: from, toNs: to, lost, cause, service, node } = followed.loss;
    const whose = service === undefined ? { node } : { service, node };
    return formatFrame('lost', stringify({ lost, cause, from, to, ...whose }), followed.id);
  }
  const { json, isLate } = followed;
  return formatFrame('event', isLate ? `${json.slice(0, -1)},"late":true}` : json, followed.id);
}
