/**
 * A transaction as recorded: the event fields that a replay needs, in recorded order, read in pages. A page dropped
 * from the cache is read again, so a transaction of any size takes the same memory.
 *
 * The events are a snapshot: events recorded later are not part of it, and reading events that retention has removed is
 * an error.
 */

import { EVENTS } from '../../../bpf/schema/index.ts';
import { findFirstPlace } from '../../base/binary_search.ts';
import { formatEventId, parseEventId } from '../../base/event_id.ts';
import { Problem } from '../../base/problem.ts';
import { getsLatency, isCallType } from '../../model/thread_delay.ts';
import { createOwnEventTest, OWN_EVENT_COLUMNS } from '../../store/blocks/own_events.ts';
import {
  type EventKey,
  getBigColumn,
  getColumn,
  type RecordingBlock,
  type RecordingDictionary,
} from '../../store/blocks/scanned_block.ts';
import type { Recordings } from '../../store/embedded/recordings.ts';

/** Columns that a scan must read for `createAffectedTest` and `callTest`. */
export const ONLY_COLUMNS = ['event_type', 'service'] as const;

/** Number of events in a page, which takes 155 KB. */
export const PAGE_EVENTS = 4096;

const RECENT_PAGES = 8;

/** The only columns that are decoded, because decoding the others would cost forty times as much. */
const COLUMNS = ['timestamp_ns', 'duration_ns', 'tid', ...ONLY_COLUMNS, ...OWN_EVENT_COLUMNS];

/** The longest span in which a double represents every nanosecond exactly: 104 days. */
export const SPAN_NS_MAX = Number.MAX_SAFE_INTEGER;

export interface RecordedPage {
  /** Recorded index of the page's first event. */
  first: number;
  count: number;
  /**
   * Offset from the first event of the node. The clocks of nodes may be decades apart, but a double represents only 104
   * days exactly.
   */
  startNs: Float64Array;
  durationNs: Float64Array;
  /** Number of the event's thread. Threads, (node, tid), are numbered from 0 in order of appearance. */
  thread: Uint32Array;
  /** Number of the event's kind. */
  kind: Uint32Array;
  /** 1: the caller waited for the event; 0: the event writes back data that the transaction wrote earlier. */
  isOwn: Uint8Array;
  /** Row of the thread's next event in this page; 0 if this page has no more events of the thread. */
  nextRow: Uint16Array;
  /** Maps a thread to the row of its first event in this page. */
  firstRow: Map<number, number>;
  /** Index of the event's recording in `recordingIds`; together with `numbers` it forms the event id. */
  recording: Uint16Array;
  numbers: BigUint64Array;
}

export interface RecordedEvents {
  /** Number of events in each page except the last. */
  readonly pageEvents: number;
  /** Start of the first event, in nanoseconds since the epoch. */
  readonly firstTimestampNs: bigint;
  /** The threads found so far, indexed by number. */
  readonly threads: readonly RecordedThread[];
  /** The kinds of events found so far, indexed by number. */
  readonly kinds: readonly EventKind[];
  /** Number of events in the pages read so far; once `isWhole` is true, the number of all events. */
  readonly known: number;
  readonly isWhole: boolean;
  /** Index of the first own event; infinite until an own event is found. */
  firstOwn(): number;
  /** Returns a page; undefined past the last page. Reading a new page first reads all pages before it. */
  readPage(number: number): RecordedPage | undefined;
  /** Returns the ascending numbers of the pages, found so far, that contain events of a thread. */
  getThreadPages(thread: number): readonly number[];
  readRecordedKey(index: number): EventKey;
  /** Counts how many events from `index` on, up to `rowsMax`, are the same as the rows of a block from `row` on. */
  countSharedRows(index: number, scanned: RecordingBlock, row: number, rowsMax: number): number;
  /** Finds the index of an event; undefined if the pages found so far do not contain the event. */
  findEventIndex(event: EventKey): number | undefined;
  /** Returns when the first event of a node started. At least one event of the node must have been found. */
  getNodeStartNs(node: string): bigint;
  /** Index of the first event found so far that started at or after a time; `known` if no event did. */
  indexAtTimestamp(ns: bigint): number;
  close(): void;
}

/** The boundaries of a page, which allow reading it again. */
interface PageMark {
  /** Key of the event before the page; undefined for the first page. */
  after: EventKey | undefined;
  firstKey: EventKey;
  lastTimestampNs: bigint;
  count: number;
}

/** Opens the events of a transaction; throws a Problem if no event of the transaction is recorded. */
export function readRecorded(
  recordings: Recordings,
  transactionId: string,
  cache: PageCache<RecordedPage>,
  pageEvents = PAGE_EVENTS,
): RecordedEvents {
  const ends = new Map(recordings.extents().map(({ recordingId, end }) => [recordingId, end]));
  const [recordingIds, startOfRecording, marks]: [string[], bigint[], PageMark[]] = [[], [], []];
  const threads = createThreads();
  const kinds = createKinds();
  const startOfNode = new Map<string, bigint>();
  const owner = {};
  /** The recently used pages. A cache lookup for every event would take longer than all other work. */
  const recent: ({ number: number; page: RecordedPage } | undefined)[] = new Array(RECENT_PAGES).fill(undefined);
  const finding = recordings.scan({ filter: { transactionId }, order: 'asc', columns: COLUMNS });
  /** Rows of the scan that did not fit into the last page. */
  let rest: { scanned: RecordingBlock; row: number } | undefined;
  let firstTimestampNs = 0n;
  let [known, isWhole, firstOwn] = [0, false, Number.POSITIVE_INFINITY];

  function placeOfRecording(id: string): number {
    const place = recordingIds.indexOf(id);
    return place < 0 ? recordingIds.push(id) - 1 : place;
  }

  /** Adds the rows `[from, rowCount)` that fit into the page; returns the first row that was not added. */
  function append(page: RecordedPage, scanned: RecordingBlock, from: number): number {
    const { block, dictionary } = scanned;
    if (block.rowCount === 0) return 0;
    const { recordingId, node } = dictionary;
    const end = ends.get(recordingId) ?? 0;
    const timestamps = getBigColumn(block, 'timestamp_ns');
    const durations = getBigColumn(block, 'duration_ns');
    const tids = getColumn(block, 'tid');
    const eventTypes = getColumn(block, 'event_type');
    const services = getColumn(block, 'service');
    const isOwn = createOwnEventTest(scanned, transactionId);
    const getThreadNumber = threads.createThreadNumbering(node);
    const getKind = kinds.createKindNumbering(dictionary);
    const place = placeOfRecording(recordingId);
    let startNs = startOfNode.get(node);
    let row = from;
    for (; row < block.rowCount && page.count < pageEvents; row++) {
      if (block.numbers[row]! >= end) continue;
      if (page.first + page.count === 0) firstTimestampNs = timestamps[row]!;
      if (startNs === undefined) {
        startNs = timestamps[row]!;
        startOfNode.set(node, startNs);
      }
      startOfRecording[place] = startNs;
      const at = page.count++;
      page.startNs[at] = Number(timestamps[row]! - startNs);
      page.durationNs[at] = Number(durations[row]!);
      page.thread[at] = getThreadNumber(tids[row]!);
      page.kind[at] = getKind(eventTypes[row]!, services[row]!);
      page.isOwn[at] = isOwn(row) ? 1 : 0;
      if (page.isOwn[at] === 1 && page.first + at < firstOwn) firstOwn = page.first + at;
      page.recording[at] = place;
      page.numbers[at] = block.numbers[row]!;
      if (page.startNs[at]! + page.durationNs[at]! > SPAN_NS_MAX) throw createTooLongProblem(transactionId);
    }
    return row;
  }

  function buildEventKey(page: RecordedPage, row: number): EventKey {
    const { recording, numbers } = page;
    return {
      timestamp_ns: computeTimestampNs(startOfRecording, page, row),
      event_id: formatEventId(recordingIds[recording[row]!]!, numbers[row]!),
    };
  }

  /** Reads the next page for the first time. */
  function discover(): RecordedPage | undefined {
    const after = marks.length > 0 ? readEventKey(known - 1) : undefined;
    const page = createRecordedPage(known, pageEvents);
    while (page.count < pageEvents && !isWhole) {
      const { done, value } = rest ? { done: false, value: rest.scanned } : finding.next();
      if (done || !value) {
        isWhole = true;
        break;
      }
      const row = append(page, value, rest?.row ?? 0);
      rest = row < value.block.rowCount ? { scanned: value, row } : undefined;
    }
    if (page.count === 0) return undefined;
    link(page);
    for (const thread of page.firstRow.keys()) threads.pages[thread]!.push(marks.length);
    const { count } = page;
    marks.push({
      after,
      firstKey: buildEventKey(page, 0),
      lastTimestampNs: computeTimestampNs(startOfRecording, page, count - 1),
      count,
    });
    known += page.count;
    return page;
  }

  function readAgain(number: number): RecordedPage {
    const { after, firstKey, lastTimestampNs, count } = marks[number]!;
    const page = createRecordedPage(number * pageEvents, pageEvents);
    const request = { filter: { transactionId, toNs: lastTimestampNs + 1n }, order: 'asc', columns: COLUMNS } as const;
    for (const scanned of recordings.scan({ ...request, ...(after && { after }) })) {
      append(page, scanned, 0);
      if (page.count >= count) break;
    }
    const isSame = page.count >= count && buildEventKey(page, 0).event_id === firstKey.event_id;
    if (!isSame) {
      const detail = `events near ${firstKey.event_id} are no longer recorded: make a new session`;
      throw new Problem('event_not_found', detail);
    }
    page.count = count;
    link(page);
    return page;
  }

  function readPage(number: number): RecordedPage | undefined {
    const slot = number % RECENT_PAGES;
    const known = recent[slot];
    if (known?.number === number) return known.page;
    while (number >= marks.length) {
      if (isWhole) return undefined;
      const found = discover();
      if (found) cache.get(owner, marks.length - 1, () => found);
    }
    const page = cache.get(owner, number, () => readAgain(number));
    recent[slot] = { number, page };
    return page;
  }

  function readEventKey(index: number): EventKey {
    return buildEventKey(readPage(Math.floor(index / pageEvents))!, index % pageEvents);
  }

  function countSharedRows(index: number, { block, dictionary }: RecordingBlock, row: number, rowsMax: number): number {
    const place = recordingIds.indexOf(dictionary.recordingId);
    return countEqualRows(
      readPage(Math.floor(index / pageEvents))!,
      { index, place, rowsMax },
      block.numbers.subarray(row),
    );
  }

  if (!readPage(0))
    throw new Problem('transaction_not_found', `no events of transaction ${transactionId} are recorded`);
  return {
    pageEvents,
    get firstTimestampNs() {
      return firstTimestampNs;
    },
    threads: threads.list,
    kinds: kinds.list,
    get known() {
      return known;
    },
    get isWhole() {
      return isWhole;
    },
    readPage,
    readRecordedKey: readEventKey,
    countSharedRows,
    firstOwn: () => firstOwn,
    getThreadPages: (thread) => threads.pages[thread]!,
    getNodeStartNs: (node) => startOfNode.get(node)!,
    findEventIndex(event) {
      const id = parseEventId(event.event_id);
      const behind = findFirstPlace(0, marks.length, (number) => isBefore(event, marks[number]!.firstKey));
      if (!id || behind === 0) return undefined;
      const { first, count, recording, numbers } = readPage(behind - 1)!;
      const place = recordingIds.indexOf(id.recordingId);
      for (let row = 0; row < count; row++)
        if (numbers[row] === id.number && recording[row] === place) return first + row;
      return undefined;
    },
    indexAtTimestamp(ns) {
      // Events with the same start may span pages.
      const number = Math.max(findFirstPlace(0, marks.length, (at) => marks[at]!.firstKey.timestamp_ns >= ns) - 1, 0);
      const found = readPage(number)!;
      return (
        found.first + findFirstPlace(0, found.count, (row) => computeTimestampNs(startOfRecording, found, row) >= ns)
      );
    },
    close() {
      finding.return();
      cache.forget(owner);
    },
  };
}

function createTooLongProblem(transactionId: string): Problem {
  const message = `transaction ${transactionId} is longer than the 104 days that a session can play`;
  return new Problem('invalid_body', message, [{ pointer: '/transaction_id', message }]);
}

function computeTimestampNs(
  startOfRecording: readonly bigint[],
  { startNs, recording }: RecordedPage,
  row: number,
): bigint {
  return startOfRecording[recording[row]!]! + BigInt(startNs[row]!);
}

function isBefore(a: EventKey, b: EventKey): boolean {
  return a.timestamp_ns < b.timestamp_ns || (a.timestamp_ns === b.timestamp_ns && a.event_id < b.event_id);
}

/**
 * Counts how many events of a page, from `index` on, belong to the recording at `place` and have the numbers `others`.
 */
function countEqualRows(
  { first, count, recording, numbers }: RecordedPage,
  { index, place, rowsMax }: { index: number; place: number; rowsMax: number },
  others: BigUint64Array,
): number {
  const from = index - first;
  const most = Math.min(rowsMax, others.length, count - from);
  let rows = 0;
  while (rows < most && numbers[from + rows] === others[rows] && recording[from + rows] === place) rows++;
  return rows;
}

/** Links each event of a page to the next event of the same thread. */
function link({ count, thread, nextRow, firstRow }: RecordedPage): void {
  const lastRow = new Map<number, number>();
  for (let row = 0; row < count; row++) {
    const before = lastRow.get(thread[row]!);
    if (before === undefined) firstRow.set(thread[row]!, row);
    else nextRow[before] = row;
    lastRow.set(thread[row]!, row);
  }
}

function createRecordedPage(first: number, length: number): RecordedPage {
  return {
    first,
    count: 0,
    startNs: new Float64Array(length),
    durationNs: new Float64Array(length),
    thread: new Uint32Array(length),
    kind: new Uint32Array(length),
    isOwn: new Uint8Array(length),
    nextRow: new Uint16Array(length),
    firstRow: new Map(),
    recording: new Uint16Array(length),
    numbers: new BigUint64Array(length),
  };
}

/* Numbers the threads of a transaction, (node, tid), from 0 in order of appearance. */

interface RecordedThread {
  node: string;
  tid: number;
}

interface RecordedThreads {
  /** The threads, indexed by number. */
  readonly list: readonly RecordedThread[];
  /** For each thread number, the ascending numbers of the pages that contain events of the thread. */
  readonly pages: readonly number[][];
  /** Returns a function that numbers a node's threads. */
  createThreadNumbering(node: string): (tid: number) => number;
}

function createThreads(): RecordedThreads {
  const list: RecordedThread[] = [];
  const pages: number[][] = [];
  const byNode = new Map<string, Map<number, number>>();
  return {
    list,
    pages,
    createThreadNumbering(node) {
      const numbers = byNode.get(node) ?? new Map<number, number>();
      byNode.set(node, numbers);
      return (tid) => {
        const known = numbers.get(tid);
        if (known !== undefined) return known;
        pages.push([]);
        const number = list.push({ node, tid }) - 1;
        numbers.set(tid, number);
        return number;
      };
    },
  };
}

/* Numbers the kinds of events, (type, service, node), from 0 in order of appearance. An `OnlyFilter` selects kinds. */

interface EventKind {
  eventType: string;
  isCall: boolean;
  service: string;
  node: string;
}

interface Kinds {
  /** The kinds, indexed by number. */
  readonly list: readonly EventKind[];
  /**
   * Returns a function that numbers the kinds of a recording's events, given the ids of an event type and a service.
   */
  createKindNumbering(dictionary: RecordingDictionary): (eventType: number, service: number) => number;
}

const TYPE_NAMES = new Map<number, string>(EVENTS.map(({ id, name }) => [id, name]));

function createKinds(): Kinds {
  const list: EventKind[] = [];
  const numbers = new Map<string, number>();
  const byRecording = new Map<string, Map<number, Map<number, number>>>();

  function findOrAddKind(kind: EventKind): number {
    const key = JSON.stringify(kind);
    const number = numbers.get(key) ?? list.push(kind) - 1;
    numbers.set(key, number);
    return number;
  }

  return {
    list,
    createKindNumbering(dictionary) {
      const { recordingId, node } = dictionary;
      const byType = byRecording.get(recordingId) ?? new Map<number, Map<number, number>>();
      byRecording.set(recordingId, byType);
      return (eventType, service) => {
        const known = byType.get(eventType)?.get(service);
        if (known !== undefined) return known;
        const type = TYPE_NAMES.get(eventType) ?? '';
        const number = findOrAddKind({
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

/** Returns a test for whether the events of a kind, given by number, get the latency. */
export function createKindTest(only: OnlyFilter | undefined, kinds: readonly EventKind[]): (kind: number) => boolean {
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

/*
 * An LRU cache of pages, which all plans share. The limit applies to the sum of the pages' sizes; by default, each page
 * has size 1.
 */

export interface PageCache<Page> {
  /** Returns a page of an owner; if the page is not cached, `make` reads it. */
  get(owner: object, number: number, make: () => Page): Page;
  forget(owner: object): void;
}

export function createPageCache<Page>(sizeMax: number, getSize: (page: Page) => number = () => 1): PageCache<Page> {
  const owners = new Map<object, Map<number, CachedPage<Page>>>();
  /** Entries in order of use; the least recently used is the first. */
  const byUse = new Set<CachedPage<Page>>();

  let size = 0;

  function leave(entry: CachedPage<Page>): void {
    if (byUse.delete(entry)) size -= getSize(entry.page);
  }

  function drop(entry: CachedPage<Page>): void {
    leave(entry);
    entry.siblings.delete(entry.number);
  }

  return {
    get(owner, number, make) {
      let siblings = owners.get(owner);
      if (!siblings) {
        siblings = new Map();
        owners.set(owner, siblings);
      }
      let entry = siblings.get(number);
      if (entry) leave(entry);
      else {
        entry = { number, siblings, page: make() };
        siblings.set(number, entry);
      }
      byUse.add(entry);
      size += getSize(entry.page);
      for (const oldest of byUse) {
        if (size <= sizeMax || oldest === entry) break;
        drop(oldest);
      }
      return entry.page;
    },
    forget(owner) {
      for (const entry of owners.get(owner)?.values() ?? []) leave(entry);
      owners.delete(owner);
    },
  };
}

interface CachedPage<Page> {
  number: number;
  siblings: Map<number, CachedPage<Page>>;
  page: Page;
}

/* Selects the events that get the extra latency. */

/** An event gets the latency if it matches every given list. Without `eventTypes`, the event must also be a call. */
export interface OnlyFilter {
  readonly eventTypes?: readonly string[] | undefined;
  readonly services?: readonly string[] | undefined;
  readonly nodes?: readonly string[] | undefined;
}

export function isSameOnly(one: OnlyFilter, other: OnlyFilter): boolean {
  const buildOnlyKey = ({ eventTypes, services, nodes }: OnlyFilter) => JSON.stringify([eventTypes, services, nodes]);
  return buildOnlyKey(one) === buildOnlyKey(other);
}

const CALLS: boolean[] = [];
for (const { id, name } of EVENTS) CALLS[id] = isCallType(name);

/** Returns a function that creates, for a block, a test for whether the event in a row gets the latency. */
export function createAffectedTest(only: OnlyFilter): (scanned: RecordingBlock) => (row: number) => boolean {
  const types = selectEventTypes(only.eventTypes);
  return ({ block, dictionary }) => {
    if (only.nodes && !only.nodes.includes(dictionary.node)) return () => false;
    const eventTypes = getColumn(block, 'event_type');
    const isOfService = createServiceCheck(only.services, dictionary, getColumn(block, 'service'));
    return (row) => types[eventTypes[row]!]! && isOfService(row);
  };
}

/** Returns for each event type, indexed by id, whether its events get the latency. */
function selectEventTypes(names: readonly string[] | undefined): boolean[] {
  const wanted: boolean[] = [];
  for (const { id, name } of EVENTS) wanted[id] = getsLatency(name, names);
  return wanted;
}

/** Returns a test for whether the event in a row of a block is a call. */
export function callTest({ block }: RecordingBlock): (row: number) => boolean {
  const eventTypes = getColumn(block, 'event_type');
  return (row) => CALLS[eventTypes[row]!]!;
}

function createServiceCheck(
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
