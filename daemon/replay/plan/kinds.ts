/** Numbers the kinds of events, (type, service, node), from 0 in order of appearance: an `Only` is a set of them. */
import { EVENTS } from '../../../bpf/schema/index.ts';
import type { RecordingDictionary } from '../../store/blocks/scanned_block.ts';
import type { Only } from './only.ts';
import { getsLatency, isCallType } from './thread_delay.ts';

export interface EventKind {
  eventType: string;
  isCall: boolean;
  service: string;
  node: string;
}

export interface Kinds {
  /** The kinds by number. */
  readonly list: readonly EventKind[];
  /** It returns a function that numbers the kinds of a recording by the ids of type and service. */
  of(dictionary: RecordingDictionary): (eventType: number, service: number) => number;
}

const TYPE_NAMES = new Map<number, string>(EVENTS.map(({ id, name }) => [id, name]));

export function newKinds(): Kinds {
  const list: EventKind[] = [];
  const numbers = new Map<string, number>();
  const byRecording = new Map<string, Map<number, Map<number, number>>>();

  function numberOf(kind: EventKind): number {
    const key = JSON.stringify(kind);
    const number = numbers.get(key) ?? list.push(kind) - 1;
    numbers.set(key, number);
    return number;
  }

  return {
    list,
    of(dictionary) {
      const { recordingId, node } = dictionary;
      const byType = byRecording.get(recordingId) ?? new Map<number, Map<number, number>>();
      byRecording.set(recordingId, byType);
      return (eventType, service) => {
        const known = byType.get(eventType)?.get(service);
        if (known !== undefined) return known;
        const type = TYPE_NAMES.get(eventType) ?? '';
        const number = numberOf({
          eventType: type,
          isCall: isCallType(type),
          service: dictionary.name(service),
          node,
        });
        byType.set(eventType, (byType.get(eventType) ?? new Map<number, number>()).set(service, number));
        return number;
      };
    },
  };
}

/** Returns a test for the numbers of kinds: whether the event gets the latency. */
export function kindTest(only: Only | undefined, kinds: readonly EventKind[]): (kind: number) => boolean {
  const { eventTypes, services, nodes } = only ?? {};
  const known: boolean[] = [];
  return (number) => {
    let isAffected = known[number];
    if (isAffected === undefined) {
      const { eventType, service, node } = kinds[number]!;
      isAffected =
        getsLatency(eventType, eventTypes) && (services?.includes(service) ?? true) && (nodes?.includes(node) ?? true);
      known[number] = isAffected;
    }
    return isAffected;
  };
}
