/**
 * An event id is `<recording id>-<number>`, each part 16 hex digits; because the width is fixed, the ids of one
 * recording sort by number.
 */
const EVENT_ID = /^([0-9a-f]{16})-([0-9a-f]{16})$/;

export function formatEventId(recordingId: string, number: bigint): string {
  return `${recordingId}-${number.toString(16).padStart(16, '0')}`;
}

export function parseEventId(text: string): { recordingId: string; number: bigint } | undefined {
  const match = EVENT_ID.exec(text);
  return match ? { recordingId: match[1]!, number: BigInt(`0x${match[2]}`) } : undefined;
}
