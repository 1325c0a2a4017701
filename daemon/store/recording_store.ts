/** The store on recordings: one, or several as one time line. */
import { RecordingError } from '../../agent/recording/errors.ts';
import { parseEventId } from '../../agent/recording/event_id.ts';
import type { ApiEvent } from '../../bpf/schema/api.ts';
import { arrivedIn, extentsOf, lossesSince, removedFrom } from './arrived.ts';
import { eventsOf } from './event.ts';
import { storeError, withFailuresOf, withStoreErrors } from './failures.ts';
import { clocksIn } from './merged_clocks.ts';
import { lossesIn } from './merged_losses.ts';
import { mergedNames } from './merged_names.ts';
import { pinIn, pinsIn, unpinIn } from './merged_pins.ts';
import { mergeScans } from './merged_scan.ts';
import { spansIn } from './merged_spans.ts';
import { transactionIn } from './merged_transaction.ts';
import { createTransactionLists } from './merged_transactions.ts';
import { type OpenRecording, recordingFiles } from './recording_files.ts';
import { dictionaryOf, scanRecording } from './recording_scan.ts';
import { recordingState } from './recording_state.ts';
import type { ScannedBlock, ScanRequest, Store } from './store.ts';

type Open = readonly OpenRecording[];

/** `data` and `recordings`: see `Places`. Nothing is opened before it is asked for. */
export function openRecordingStore(data: string | undefined, recordings: readonly string[] = []): Store {
  const files = recordingFiles({ data, recordings });
  const lists = createTransactionLists();
  /** Runs with the recordings that are there now. */
  const read = <Result>(work: (open: Open) => Result): Result =>
    withStoreErrors(() => {
      const open = files.acquire();
      try {
        return work(open);
      } finally {
        files.release(open);
      }
    });
  return {
    info: () =>
      read((open) => {
        const byId = new Map(open.map(({ recordingId, node }) => [recordingId, { recordingId, node }]));
        return { recordings: [...byId.values()] };
      }),
    recordingStates: () => read((open) => open.map(recordingState)),
    *scan(request) {
      const open = withStoreErrors(() => files.acquire());
      try {
        yield* scan(ofNodes(open, request.filter.nodes), request);
      } catch (error) {
        throw storeError(error);
      } finally {
        files.release(open);
      }
    },
    extents: (nodes) => read((open) => extentsOf(ofNodes(open, nodes))),
    arrivals: (request) => read((open) => arrivedIn(open, request)),
    removed: (recordingId, from, end) => read((open) => removedFrom(open, recordingId, from, end)),
    lossesAfter: (recordingId, lossId) => read((open) => lossesSince(open, recordingId, lossId)),
    event: (eventId) => read((open) => eventIn(open, eventId)),
    transaction: (transactionId) => read((open) => transactionIn(open, transactionId)),
    *transactions(request) {
      const open = withStoreErrors(() => files.acquire());
      try {
        return yield* lists.list(open, request);
      } catch (error) {
        throw storeError(error);
      } finally {
        files.release(open);
      }
    },
    pin: (request) => read((open) => pinIn(open, request)),
    unpin: (transactionId) => read((open) => unpinIn(open, transactionId)),
    pins: (transactionId) => read((open) => pinsIn(open, transactionId)),
    services: () =>
      read((open) => mergedNames(open.flatMap(({ file, reader }) => withFailuresOf(file, () => reader.services())))),
    nodes: () => read((open) => mergedNames(open.map(({ node }) => node))),
    losses: (fromNs, toNs, nodes) => read((open) => lossesIn(ofNodes(open, nodes), fromNs, toNs)),
    clocks: (nodes, fromNs, toNs) => read((open) => clocksIn(open, nodes, fromNs, toNs)),
    spans: (nodes) => read((open) => spansIn(ofNodes(open, nodes))),
    close: () => files.close(),
  };
}

function ofNodes(open: Open, nodes: readonly string[] | undefined): Open {
  return nodes ? open.filter(({ node }) => nodes.includes(node)) : open;
}

function scan(open: Open, request: ScanRequest): Generator<ScannedBlock, void> {
  const scans = open.map((recording) => ({
    recordingId: recording.recordingId,
    blocks: scanRecording(recording, request),
  }));
  const [only] = scans;
  return only && scans.length === 1 ? only.blocks : mergeScans(scans, request);
}

function eventIn(open: Open, eventId: string): ApiEvent | undefined {
  const id = parseEventId(eventId);
  if (!id) return undefined;
  let failure: RecordingError | undefined;
  for (const recording of open.filter(({ recordingId }) => recordingId === id.recordingId)) {
    try {
      const block = withFailuresOf(recording.file, () => recording.reader.event(id.number));
      if (block) return eventsOf({ block, dictionary: dictionaryOf(recording) })[0];
    } catch (error) {
      // A copy may be whole where this one is damaged.
      if (!(error instanceof RecordingError)) throw error;
      failure ??= error;
    }
  }
  if (failure) throw failure;
  return undefined;
}
