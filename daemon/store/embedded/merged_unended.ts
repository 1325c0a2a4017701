/** What is in progress in several recordings. */
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import { eventsOf } from '../blocks/event.ts';
import type { EventFilter, Unended, UnendedEvent } from '../store.ts';
import { withFailuresOf } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';
import { dictionaryOf } from './recording_scan.ts';
import { writtenSpan } from './writer_state.ts';

export function unendedIn(recordings: readonly OpenRecording[], filter: EventFilter): Unended {
  const all = [...Map.groupBy(recordings, ({ recordingId }) => recordingId).values()].map((copies) =>
    unendedOf(newestOf(copies), filter),
  );
  return {
    events: all.flatMap(({ events }) => events),
    lost: all.flatMap(({ lost }) => lost),
    unlisted: all.flatMap(({ unlisted }) => unlisted),
  };
}

/** An older copy lists what has ended since. */
function newestOf(copies: readonly OpenRecording[]): OpenRecording {
  const [first, ...others] = copies;
  const untilNs = (recording: OpenRecording) => writtenSpan(recording)?.toNs ?? 0n;
  return others.reduce((newest, copy) => (untilNs(copy) > untilNs(newest) ? copy : newest), first!);
}

function unendedOf(recording: OpenRecording, filter: EventFilter): Unended {
  const { file, reader, node } = recording;
  return withFailuresOf(file, () => {
    const { inProgress, unfinished, unlisted } = reader.unended(filter);
    const eventsIn = (block: NumberedBlock | undefined) =>
      block ? eventsOf({ block, dictionary: dictionaryOf(recording) }).map(withoutEnd) : [];
    return {
      events: eventsIn(inProgress),
      lost: eventsIn(unfinished),
      unlisted: unlisted.count > 0 ? [{ node, ...unlisted }] : [],
    };
  });
}

function withoutEnd(event: ApiEvent): UnendedEvent {
  const { timestamp_ns, service_name, transaction_id, trace_id, node, pid, tid, comm } = event;
  const known = { timestamp_ns, service_name, transaction_id, trace_id, node, pid, tid, comm };
  if (event.event_type === 'block_io') {
    const { event_type, operation, device } = event;
    return { event_type, ...known, operation, device };
  }
  const { event_type, syscall, file } = event;
  return { event_type, ...known, syscall, file };
}
