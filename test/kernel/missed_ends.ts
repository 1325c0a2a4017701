/**
 * Separates ends of requests that the kernel never showed from all other losses: Linux 6.18 was seen to complete a
 * request of any process on the machine without running the program (agent/docs/events.md), whatever the test does.
 */

export const isMissedEnd = ({ cause }: { cause: string }): boolean => cause === 'end_missed';

/**
 * Whether a loss may be of any program of the machine, whatever the test does: an end that was never shown, or a marker
 * or a name that another suite loses at the same time.
 */
export const isOthersLoss = (loss: { cause: string }): boolean =>
  isMissedEnd(loss) || ['marker_unreadable', 'marker_flood', 'definition_lost'].includes(loss.cause);

/** What an agent logged, without the lines about such ends. */
export const withoutMissedEnds = (log: string): string => log.replaceAll(/^{.*"cause":"end_missed".*}\n/gm, '');
