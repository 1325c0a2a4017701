/**
 * Separates ends of requests that the kernel never showed from all other losses: Linux 6.18 was seen to complete a
 * request of any process on the machine without running the program (agent/docs/events.md), whatever the test does.
 */

export const isMissedEnd = ({ cause }: { cause: string }): boolean => cause === 'end_missed';

/** What an agent logged, without the lines about such ends. */
export const withoutMissedEnds = (log: string): string => log.replaceAll(/^{.*"cause":"end_missed".*}\n/gm, '');
