/** Recordings on this machine: one, or several merged into one time line. */

import { RecordingError } from '../../../agent/recording/format/errors.ts';
import type { LossParts } from '../../../agent/recording/format/losses.ts';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { U64_MAX } from '../../base/bigints.ts';
import { parseEventId } from '../../base/event_id.ts';
import { readBlockEvents } from '../blocks/event.ts';
import type { RecordingBlock } from '../blocks/scanned_block.ts';
import type { EventFilter, ScanRequest } from '../store.ts';
import { FileError, toStoreError, withFileErrors, withStoreErrors } from './failures.ts';
import {
  countMergedEvents,
  listWrittenSpans,
  mergeNames,
  readMergedLosses,
  readNodeClocks,
  readRecordingState,
} from './merged_info.ts';
import { findHolders, findPinned, pinInAll, readMergedPins, unpinInAll } from './merged_pins.ts';
import { mergeScans } from './merged_scan.ts';
import { createTransactionLists, readMergedTransaction, readMergedTransactions } from './merged_transactions.ts';
import { readMergedUnended } from './merged_unended.ts';
import { type OnUnreadable, type OpenRecording, openRecordingFiles } from './recording_files.ts';
import { findOrCreateDictionary, scanRecording } from './recording_scan.ts';
import type {
  ArrivedBlock,
  Extent,
  NumberedLoss,
  RecordingArrivalRequest,
  Recordings,
  UnorderedRequest,
} from './recordings.ts';

type Open = readonly OpenRecording[];

/**
 * Opens the store; `ServedPaths` describes the parameters. Files are opened on first use. The served files are looked
 * up at most once in each pass of the event loop.
 */
export function openRecordingStore(
  data: string | undefined,
  recordings: readonly string[] = [],
  onUnreadable?: OnUnreadable,
  { isLiveOnly = false } = {},
): Recordings {
  const files = openRecordingFiles({ data, recordings, isLiveOnly }, onUnreadable);
  const lists = createTransactionLists();
  const isLeftOut = (error: unknown) => error instanceof FileError && files.leaveOut(error.file, error);
  /** Runs `work` with the recordings that are served at present. */
  const readOnce = <Result>(work: (open: Open) => Result): Result => {
    const open = files.acquire();
    try {
      return work(open);
    } finally {
      files.release(open);
    }
  };
  /** Runs `work` as `readOnce` does. If an import turns out to be unreadable, starts again without this import. */
  const read = <Result>(work: (open: Open) => Result): Result =>
    withStoreErrors(() => {
      for (;;) {
        try {
          return readOnce(work);
        } catch (error) {
          if (!isLeftOut(error)) throw error;
        }
      }
    });
  /** Runs `work` as `read` does, but in steps. */
  function* readInSteps<Result>(work: (open: Open) => Generator<void, Result>): Generator<void, Result> {
    for (;;) {
      const open = withStoreErrors(() => files.acquire());
      try {
        return yield* work(open);
      } catch (error) {
        if (!isLeftOut(error)) throw toStoreError(error);
      } finally {
        files.release(open);
      }
    }
  }
  /** Scans the recordings of these nodes. Keeps all recordings open until the scan has ended. */
  function* scanNodes(
    nodes: readonly string[] | undefined,
    work: (open: Open) => Generator<RecordingBlock, void>,
  ): Generator<RecordingBlock, void> {
    const open = withStoreErrors(() => files.acquire());
    try {
      yield* work(selectRecordings(open, nodes));
    } catch (error) {
      throw toStoreError(error);
    } finally {
      files.release(open);
    }
  }
  /**
   * Runs `work`, which searches for one item. Throws if the item is not found and a file is unreadable, because that
   * file may contain the item.
   */
  const find = <Result>(work: (open: Open) => Result | undefined): Result | undefined =>
    withStoreErrors(() => {
      const found = readOnce(work);
      const [unreadable] = files.listUnreadable();
      if (found === undefined && unreadable) throw unreadable.error;
      return found;
    });
  const selectUnreadable = (nodes: readonly string[] | undefined) =>
    files.listUnreadable().filter(({ node }) => node === undefined || !nodes || nodes.includes(node));
  return {
    listRecordingStates: () => read((open) => open.map(readRecordingState)),
    listUnreadable: (nodes) =>
      selectUnreadable(nodes).map(({ path, node = null, error: { code, message } }) => ({
        path,
        node,
        code,
        reason: message,
      })),
    findings: files.findings,
    adopt(findings) {
      if (findings.leftOut.length === 0 && findings.damaged.length === 0) return;
      // Opens the files, because damage can be noted only for open files.
      try {
        files.release(files.acquire());
      } catch {
        // The next query fails in the same way, and reports the error.
      }
      files.adopt(findings);
    },
    scan: (request) => scanNodes(request.filter.nodes, (open) => scan(open, request, isLeftOut)),
    scanUnordered: (request) => scanNodes(request.filter.nodes, (open) => scanUnordered(open, request, isLeftOut)),
    extents: (nodes) => read((open) => listExtents(selectRecordings(open, nodes))),
    lookForFiles: (filter) => readInSteps((open) => lookForFiles(selectRecordings(open, filter.nodes), filter)),
    arrivals: (request) => read((open) => readArrivals(open, request)),
    countRemoved: (recordingId, from, end) => read((open) => removedFrom(open, recordingId, from, end)),
    lossesAfter: (recordingId, lossId, parts) => read((open) => readLossesAfter(open, recordingId, { lossId, parts })),
    listNewest: (recordingId, request) =>
      read(
        (open) =>
          open.find((recording) => recording.recordingId === recordingId)?.reader.listTransactions(request) ?? [],
      ),
    event: (eventId) => find((open) => findEvent(open, eventId)),
    findTransaction: (transactionId, recordingId) =>
      find((open) => readMergedTransaction(selectRecording(open, recordingId), transactionId)),
    findTransactionsById: (ids) => read((open) => readMergedTransactions(open, ids)),
    listTransactions: (request) => readInSteps((open) => lists.list(open, request)),
    gatherTransactions: (filter, begin) =>
      readInSteps(function* (open) {
        const { add, finish } = begin();
        const reach = yield* lists.passTransactions(open, filter, add);
        return { result: finish(), reach };
      }),
    async pin(request, recordingId) {
      const { transactionId } = request;
      const holders = find((open) => findHolders(selectRecording(open, recordingId), transactionId));
      if (!holders) return undefined;
      const count = await pinInAll(holders.losing, request);
      // Retention may have removed the transaction before it was pinned.
      if (count === 0 && !holders.isKept) return undefined;
      return read((open) => readMergedPins(open, transactionId));
    },
    unpin: async (transactionId) =>
      (await unpinInAll(
        read((open) => findPinned(open, transactionId)),
        transactionId,
      )) > 0,
    listPins: (transactionId, recordingId) =>
      read((open) => readMergedPins(selectRecording(open, recordingId), transactionId)),
    listServices: () =>
      read((open) => mergeNames(open.flatMap(({ file, reader }) => withFileErrors(file, () => reader.services())))),
    nodes: () => read((open) => mergeNames(open.map(({ node }) => node))),
    listLosses(fromNs = 0n, toNs = U64_MAX, nodes = undefined, parts = undefined) {
      const losses = read((open) => readMergedLosses(selectRecordings(open, nodes), { fromNs, toNs, parts }));
      const gaps = new Set(selectUnreadable(nodes).map(({ node = null }) => node));
      return [...losses, ...[...gaps].map((node) => ({ fromNs, toNs, lost: 0, cause: 'unreadable', node }))];
    },
    countEvents: (spans) =>
      read((open) => spans.map((span) => countMergedEvents(selectRecordings(open, [span.node]), span))),
    readClocks: (nodes, fromNs, toNs) => read((open) => readNodeClocks(open, nodes, fromNs, toNs)),
    readUnended: (nodes) => read((open) => readMergedUnended(selectRecordings(open, nodes))),
    listSpans: (nodes) => read((open) => listWrittenSpans(selectRecordings(open, nodes))),
    close: () => files.close(),
  };
}

function selectRecordings(open: Open, nodes: readonly string[] | undefined): Open {
  return nodes ? open.filter(({ node }) => nodes.includes(node)) : open;
}

/** Returns the copies of one recording, or all recordings if no id is given. */
function selectRecording(open: Open, recordingId: string | undefined): Open {
  return recordingId === undefined ? open : open.filter((recording) => recording.recordingId === recordingId);
}

/**
 * Scans the recordings as one. If `isLeftOut` accepts the error of a recording, the scan continues with the other
 * recordings.
 */
function scan(
  open: Open,
  request: ScanRequest,
  isLeftOut: (error: unknown) => boolean,
): Generator<RecordingBlock, void> {
  const scans = open.map((recording) => ({
    recordingId: recording.recordingId,
    blocks: readUntilUnreadable(scanRecording(recording, request), isLeftOut),
  }));
  const [only] = scans;
  return only && scans.length === 1 ? only.blocks : mergeScans(scans, request);
}

function* scanUnordered(
  open: Open,
  request: UnorderedRequest,
  isLeftOut: (error: unknown) => boolean,
): Generator<RecordingBlock, void> {
  // Only `mergeScans`, which `scan` uses, recognises an event that several files contain.
  if (new Set(open.map(({ recordingId }) => recordingId)).size < open.length) {
    yield* scan(open, { ...request, order: 'asc' }, isLeftOut);
    return;
  }
  for (const recording of open)
    yield* readUntilUnreadable(scanRecording(recording, { ...request, order: 'none' }), isLeftOut);
}

function* readUntilUnreadable<Block>(
  blocks: Iterable<Block>,
  isLeftOut: (error: unknown) => boolean,
): Generator<Block> {
  try {
    yield* blocks;
  } catch (error) {
    if (!isLeftOut(error)) throw error;
  }
}

function findEvent(open: Open, eventId: string): ApiEvent | undefined {
  const id = parseEventId(eventId);
  if (!id) return undefined;
  let failure: RecordingError | undefined;
  for (const recording of open.filter(({ recordingId }) => recordingId === id.recordingId)) {
    try {
      const block = withFileErrors(recording.file, () => recording.reader.event(id.number));
      if (block) return readBlockEvents({ block, dictionary: findOrCreateDictionary(recording) })[0];
    } catch (error) {
      // Another copy of the recording may be undamaged.
      if (!(error instanceof RecordingError)) throw error;
      failure ??= error;
    }
  }
  if (failure) throw failure;
  return undefined;
}

/* Reads the events recorded since a position, in the order in which they were recorded. */

/** Returns, for each recording, the copy with the highest `end`. */
function chooseLongestCopies(open: Open): { recording: OpenRecording; extent: { end: number; lossId: number } }[] {
  const byId = new Map<string, ReturnType<typeof chooseLongestCopies>[number]>();
  for (const recording of open) {
    const extent = withFileErrors(recording.file, () => recording.reader.extent());
    const known = byId.get(recording.recordingId);
    if (!known || extent.end > known.extent.end) byId.set(recording.recordingId, { recording, extent });
  }
  return [...byId.values()];
}

function find(open: Open, recordingId: string): OpenRecording | undefined {
  const copies = open.filter((recording) => recording.recordingId === recordingId);
  return copies.length <= 1 ? copies[0] : chooseLongestCopies(copies)[0]!.recording;
}

function listExtents(open: Open): Extent[] {
  return chooseLongestCopies(open).map(({ recording: { recordingId, node, file }, extent }) => ({
    recordingId,
    node,
    ...extent,
    isImport: file.source === 'imported',
  }));
}

function* lookForFiles(open: Open, filter: EventFilter): Generator<void, void> {
  for (const { file, reader } of open) {
    const steps = reader.lookForFiles(filter);
    while (!withFileErrors(file, () => steps.next()).done) yield;
  }
}

function readArrivals(
  open: Open,
  { recordingId, limit, ...request }: RecordingArrivalRequest,
): ArrivedBlock | undefined {
  const recording = find(open, recordingId);
  if (!recording) return undefined;
  const read = () => recording.reader.arrivals({ ...request, rowsMax: limit });
  const arrived = withFileErrors(recording.file, read);
  return (
    arrived && { scanned: { block: arrived.block, dictionary: findOrCreateDictionary(recording) }, next: arrived.next }
  );
}

function removedFrom(open: Open, recordingId: string, from: number, end: number) {
  const recording = find(open, recordingId);
  if (!recording) return { count: 0, next: from, toNs: 0n };
  return withFileErrors(recording.file, () => recording.reader.countRemoved(from, end));
}

function readLossesAfter(
  open: Open,
  recordingId: string,
  { lossId, parts }: { lossId: number; parts: LossParts | undefined },
): NumberedLoss[] {
  const recording = find(open, recordingId);
  if (!recording) return [];
  const losses = withFileErrors(recording.file, () => recording.reader.listLossesAfter(lossId, parts));
  return losses.map(({ count, ...loss }) => ({ ...loss, lost: count }));
}
