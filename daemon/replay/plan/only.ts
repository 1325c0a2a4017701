/** Which events get the extra latency. */
import { EVENTS } from '../../../bpf/schema/index.ts';
import { column } from '../../store/blocks/column.ts';
import type { RecordingBlock, RecordingDictionary } from '../../store/blocks/scanned_block.ts';
import { getsLatency, isCallType } from './thread_delay.ts';

/** An event gets the latency if it matches every list that is given; without types of events it must be a call. */
export interface Only {
  readonly eventTypes?: readonly string[] | undefined;
  readonly services?: readonly string[] | undefined;
  readonly nodes?: readonly string[] | undefined;
}

export function isSameOnly(one: Only, other: Only): boolean {
  const listsOf = ({ eventTypes, services, nodes }: Only) => JSON.stringify([eventTypes, services, nodes]);
  return listsOf(one) === listsOf(other);
}

const CALLS: boolean[] = [];
for (const { id, name } of EVENTS) CALLS[id] = isCallType(name);

/** Columns that a scan must read for `affectedTest` and `callTest`. */
export const ONLY_COLUMNS = ['event_type', 'service'] as const;

/** Returns a function that makes a test for the rows of a block: whether the event gets the latency. */
export function affectedTest(only: Only): (scanned: RecordingBlock) => (row: number) => boolean {
  const types = typesOf(only.eventTypes);
  return ({ block, dictionary }) => {
    if (only.nodes && !only.nodes.includes(dictionary.node)) return () => false;
    const eventTypes = column(block, 'event_type');
    const isOfService = serviceCheck(only.services, dictionary, column(block, 'service'));
    return (row) => types[eventTypes[row]!]! && isOfService(row);
  };
}

/** Whether each event type, by its number, gets the latency. */
function typesOf(names: readonly string[] | undefined): boolean[] {
  const wanted: boolean[] = [];
  for (const { id, name } of EVENTS) wanted[id] = getsLatency(name, names);
  return wanted;
}

/** Returns a function that makes a test for the rows of a block: whether the event is a call. */
export function callTest({ block }: RecordingBlock): (row: number) => boolean {
  const eventTypes = column(block, 'event_type');
  return (row) => CALLS[eventTypes[row]!]!;
}

function serviceCheck(
  services: readonly string[] | undefined,
  dictionary: RecordingDictionary,
  ids: ArrayLike<number>,
) {
  if (!services) return () => true;
  const known = new Map<number, boolean>();
  return (row: number) => {
    const id = ids[row]!;
    let isWanted = known.get(id);
    if (isWanted === undefined) {
      isWanted = services.includes(dictionary.name(id));
      known.set(id, isWanted);
    }
    return isWanted;
  };
}
