/** The events of compared transactions, each with its transaction, kept until a transaction's events are all there. */

export interface KeptEvent {
  profile: number;
  /** Nanoseconds from the start of the transaction. */
  start: number;
  duration: number;
  queue: number;
  /** Whether a thread of the transaction caused it; other events are requests that carry its data. */
  isOwn: boolean;
}

export interface KeptEvents {
  add(transaction: number, event: KeptEvent): void;
  /** Fills `events` with those of a transaction, and returns how many there are. Objects are reused. */
  read(transaction: number, events: KeptEvent[]): number;
}

const NONE = -1;

/** 33 bytes an event. */
export function keepEvents(transactions: number): KeptEvents {
  const heads = new Int32Array(transactions).fill(NONE);
  let kept = newColumns(4096);
  let count = 0;

  function grow(): void {
    const larger = newColumns(kept.next.length * 2);
    larger.next.set(kept.next);
    larger.profiles.set(kept.profiles);
    larger.starts.set(kept.starts);
    larger.durations.set(kept.durations);
    larger.queues.set(kept.queues);
    larger.own.set(kept.own);
    kept = larger;
  }

  return {
    add(transaction, { profile, start, duration, queue, isOwn }) {
      if (count === kept.next.length) grow();
      kept.next[count] = heads[transaction]!;
      heads[transaction] = count;
      kept.profiles[count] = profile;
      kept.starts[count] = start;
      kept.durations[count] = duration;
      kept.queues[count] = queue;
      kept.own[count] = isOwn ? 1 : 0;
      count++;
    },
    read(transaction, events) {
      let length = 0;
      for (let at = heads[transaction]!; at !== NONE; at = kept.next[at]!) {
        events[length] ??= { profile: 0, start: 0, duration: 0, queue: 0, isOwn: true };
        const event = events[length++]!;
        event.profile = kept.profiles[at]!;
        event.start = kept.starts[at]!;
        event.duration = kept.durations[at]!;
        event.queue = kept.queues[at]!;
        event.isOwn = kept.own[at] === 1;
      }
      return length;
    },
  };
}

function newColumns(length: number) {
  return {
    next: new Int32Array(length),
    profiles: new Uint32Array(length),
    starts: new Float64Array(length),
    durations: new Float64Array(length),
    queues: new Float64Array(length),
    own: new Uint8Array(length),
  };
}
