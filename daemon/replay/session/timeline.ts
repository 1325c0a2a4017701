/** Lists the schedule of a session without playing it. */
import type { ReplayPlan } from '../plan/planner.ts';
import { scheduledJson } from './replayed_event.ts';

/** Events read at once. */
const PAGE_EVENTS = 1024;

/** It yields pages of events as JSON objects. */
export async function* timelineOf(
  plan: Pick<ReplayPlan, 'page'>,
  { index, limit }: { index: number; limit: number },
  timeoutNs: bigint | null,
): AsyncGenerator<string[], void> {
  for (let [from, left] = [index, limit]; left > 0; ) {
    const page = await plan.page(from, Math.min(left, PAGE_EVENTS));
    yield scheduledJson(page, timeoutNs);
    if (page.isLast) return;
    from += page.count;
    left -= page.count;
  }
}
