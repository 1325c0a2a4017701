/** Encodes a plan as the bytes of its file. */
import { writeColumns, writeRecord } from '../format/layout.ts';
import { OPS, PATH_KINDS, PLAN_MAGIC, planEvent, planHeader, planSlot, planStream } from '../format/plan_file.ts';
import type { DelayPlan } from './compile.ts';

export function encodePlan({ seed, flags, streams, slots, events, eventCount }: DelayPlan): Buffer {
  const strings = createStrings();
  const texts = streams.map(({ path, comm, service }) => [path, comm, service].map(strings.findOrAddText));
  const slotCount = slots.tid.length;
  const streamsAt = planHeader.size;
  const slotsAt = streamsAt + streams.length * planStream.size;
  const eventsAt = slotsAt + slotCount * planSlot.size;
  const stringsAt = eventsAt + eventCount * planEvent.size;
  const text = strings.bytes();
  const bytes = Buffer.alloc(Math.ceil((stringsAt + text.length) / 8) * 8);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  writeRecord(view, 0, planHeader, {
    magic: PLAN_MAGIC.readBigUInt64LE(),
    file_bytes: BigInt(bytes.length),
    seed,
    stream_count: streams.length,
    slot_count: slotCount,
    event_count: eventCount,
    string_bytes: text.length,
    streams_at: BigInt(streamsAt),
    slots_at: BigInt(slotsAt),
    events_at: BigInt(eventsAt),
    strings_at: BigInt(stringsAt),
    syscall_mask: computeOpMask(streams),
    flags,
  });
  for (const [number, { op, pathKind, firstSlot, slotCount, flags }] of streams.entries()) {
    const [path = 0, comm = 0, service = 0] = texts[number]!;
    const values = {
      op: OPS[op],
      path_kind: PATH_KINDS[pathKind],
      first_slot: firstSlot,
      slot_count: slotCount,
      flags,
    };
    writeRecord(view, streamsAt + number * planStream.size, planStream, { ...values, path, comm, service });
  }
  const { tid, firstEvent: first_event, eventCount: event_count } = slots;
  const comm = slots.stream.map((stream) => texts[stream]![1]!);
  writeColumns(view, slotsAt, planSlot, { tid, comm, first_event, event_count }, slotCount);
  writeColumns(view, eventsAt, planEvent, events, eventCount);
  text.copy(bytes, stringsAt);
  return bytes;
}

/**
 * Returns the bit mask of the system calls that the helper watches. The mask includes whole classes (writes or syncs),
 * because a build may call fdatasync or pwrite64 where fsync or write was recorded.
 */
function computeOpMask(streams: readonly { op: keyof typeof OPS }[]): number {
  const isSync = (op: number) => op >= OPS.fsync;
  const planned = new Set(streams.map(({ op }) => isSync(OPS[op])));
  return Object.values<number>(OPS).reduce((mask, op) => (planned.has(isSync(op)) ? mask | (1 << op) : mask), 0);
}

/** Creates the table of strings. Each text is stored once, with a NUL at its end; the empty text is at offset 0. */
function createStrings() {
  const offsets = new Map<string, number>();
  const chunks: Buffer[] = [];
  let size = 0;
  function findOrAddText(text: string): number {
    const known = offsets.get(text);
    if (known !== undefined) return known;
    const offset = size;
    const chunk = Buffer.from(`${text.replaceAll('\0', '')}\0`);
    chunks.push(chunk);
    size += chunk.length;
    offsets.set(text, offset);
    return offset;
  }
  findOrAddText('');
  return { findOrAddText, bytes: () => Buffer.concat(chunks) };
}
