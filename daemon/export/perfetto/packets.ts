/** Writes the messages inside a trace's packets. */
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import type { FlatType } from '../flat_columns.ts';
import * as proto from './fields.ts';
import type { MessageWriter } from './messages.ts';
import { ARGUMENT_NAMES, ARGUMENTS, CATEGORIES, SLICE_NAMES } from './names.ts';
import type { Track } from './tracks.ts';

export function writeInternedNames(writer: MessageWriter): void {
  const tables = [
    [proto.INTERNED_DATA.event_categories, CATEGORIES],
    [proto.INTERNED_DATA.event_names, SLICE_NAMES],
    [proto.INTERNED_DATA.debug_annotation_names, ARGUMENT_NAMES],
  ] as const;
  for (const [field, names] of tables) {
    for (const [name, iid] of names) {
      writer.message(field, () => {
        writer.integer(proto.INTERNED.iid, iid);
        writer.text(proto.INTERNED.name, name);
      });
    }
  }
}

export function writeClocks(writer: MessageWriter, boottimeNs: bigint, realtimeNs: bigint): void {
  const readings = [
    [proto.BUILTIN_CLOCK.boottime, boottimeNs],
    [proto.BUILTIN_CLOCK.realtime, realtimeNs],
  ] as const;
  for (const [id, ns] of readings) {
    writer.message(proto.CLOCK_SNAPSHOT.clocks, () => {
      writer.integer(proto.CLOCK.clock_id, id);
      writer.integer(proto.CLOCK.timestamp, ns);
    });
  }
  writer.integer(proto.CLOCK_SNAPSHOT.primary_trace_clock, proto.BUILTIN_CLOCK.boottime);
}

export function writeTrack(writer: MessageWriter, { uuid, parentUuid, name, process, thread }: Track): void {
  writer.integer(proto.TRACK_DESCRIPTOR.uuid, uuid);
  if (parentUuid !== undefined) writer.integer(proto.TRACK_DESCRIPTOR.parent_uuid, parentUuid);
  if (name !== undefined) writer.text(proto.TRACK_DESCRIPTOR.name, name);
  if (process) {
    writer.message(proto.TRACK_DESCRIPTOR.process, () => {
      writer.integer(proto.PROCESS_DESCRIPTOR.pid, process.pid);
      writer.text(proto.PROCESS_DESCRIPTOR.process_name, process.name);
    });
  }
  if (thread) {
    writer.message(proto.TRACK_DESCRIPTOR.thread, () => {
      writer.integer(proto.THREAD_DESCRIPTOR.pid, thread.pid);
      writer.integer(proto.THREAD_DESCRIPTOR.tid, thread.tid);
      writer.text(proto.THREAD_DESCRIPTOR.thread_name, thread.name);
    });
  }
}

/** Names a slice. A name that is not interned is from a newer schema, so the category is used instead. */
export function writeNames(writer: MessageWriter, category: string, name: string): void {
  writer.integer(proto.TRACK_EVENT.category_iids, CATEGORIES.get(category)!);
  writer.integer(proto.TRACK_EVENT.name_iid, (SLICE_NAMES.get(name) ?? SLICE_NAMES.get(category))!);
}

export function writeArguments(writer: MessageWriter, event: ApiEvent): void {
  for (const column of ARGUMENTS) {
    const value = column.value(event);
    if (value !== null) writeArgument(writer, column.name, column.type, value);
  }
}

export function writeArgument(
  writer: MessageWriter,
  name: string,
  type: FlatType,
  value: string | number | bigint,
): void {
  writer.message(proto.TRACK_EVENT.debug_annotations, () => {
    writer.integer(proto.DEBUG_ANNOTATION.name_iid, ARGUMENT_NAMES.get(name)!);
    if (typeof value === 'string') writer.text(proto.DEBUG_ANNOTATION.string_value, value);
    else writer.integer(proto.DEBUG_ANNOTATION[type === 'unsigned' ? 'uint_value' : 'int_value'], value);
  });
}
