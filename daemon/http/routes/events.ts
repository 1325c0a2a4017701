import { type Request, type Response, Router } from 'express';
import { yieldToEventLoop } from '../../base/event_loop.ts';
import { stringify } from '../../base/exact_json.ts';
import { Problem } from '../../base/problem.ts';
import { encodeCursor } from '../../contract/cursor.ts';
import { createParameterProblem, type EventQuery, parseEventQuery, toCursorKey } from '../../contract/event_query.ts';
import { noParameters } from '../../contract/parameters.ts';
import { parseQuery } from '../../contract/query_string.ts';
import { parseTailQuery, type TailQuery } from '../../contract/tail_query.ts';
import { beginAnswer, type CoveredAnswer } from '../../coverage/answer.ts';
import { encodeColumnLines, LINE_COLUMNS } from '../../store/blocks/column_lines.ts';
import { readEventKey } from '../../store/blocks/event.ts';
import { encodePageChunks } from '../../store/blocks/event_json.ts';
import { createRowCutter, type EventKey, type ScannedBlock } from '../../store/blocks/scanned_block.ts';
import type { ScanRequest, Store } from '../../store/store.ts';
import { toSlowKey } from '../../sums/slowest.ts';
import type { Tails } from '../../tail/tails.ts';
import { type ScanGate, type ScanSlot, SMALL_ROWS_MAX, WHOLE_BYTES_MAX } from '../access/scan_gate.ts';
import type { StreamRoom } from '../access/stream_room.ts';
import { openEventStream } from '../event_stream.ts';
import { isOpen, sendChunks, sendLines, sendNdjson } from '../ndjson.ts';
import { refuseOtherMethods } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';
import { refuseIfPartial } from './partial.ts';
import { runToEnd } from './run_in_steps.ts';

const LOST = 'Kreplay-Lost';
const COMPLETE = 'Kreplay-Complete';
/**
 * Name of the header with the time until which all nodes of the query are recorded. The header is not repeated as a
 * trailer, because the time does not change while events are sent.
 */
const RECORDED_UNTIL = 'Kreplay-Recorded-Until';
const EVENT_STREAM = 'text/event-stream';
const COLUMNS = 'application/vnd.kreplay.columns';
const MEDIA_TYPES = ['application/json', 'application/x-ndjson', EVENT_STREAM, COLUMNS];
/** Number of rows that are written before a page's size is checked again. */
const PART_ROWS = 256;

interface Options {
  store: Store;
  now: () => bigint;
  scanGate: ScanGate;
  streamRoom: StreamRoom;
  tails: Tails;
}

export function createEventRoutes({ store, now, scanGate, streamRoom, tails }: Options): Router {
  const router = Router();
  router
    .route('/')
    .get(async (req, res) => {
      res.vary('Accept');
      const mediaType = req.accepts(MEDIA_TYPES);
      if (!mediaType) throw new Problem('not_acceptable', `events come as ${MEDIA_TYPES.join(' or ')}`);
      if (mediaType === EVENT_STREAM)
        return await sendTail(req, res, { tails, streamRoom }, parseTailQuery(req.query as never, now()));
      const query = parseEventQuery(req.query as never, now());
      if (mediaType === COLUMNS) refuseOtherOrders(query);
      const slot = await scanGate.enter(res, { isSmall: isSmall(query, mediaType) });
      // Other requests run before the first chunk is read, because reading it also opens the scan.
      await yieldToEventLoop(res);
      if (mediaType === COLUMNS) await sendColumns(req, res, store, query, slot);
      else if (query.slowest) await sendSlowest(req, res, store, { ...query, slowest: query.slowest }, slot);
      else if (mediaType === 'application/json') await sendPage(res, store, query, slot);
      else await sendStream(req, res, store, query, slot);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  router
    .route('/:event_id')
    .get(async (req, res) => {
      parseQuery(req.query, noParameters);
      const shards = store.fleet?.watchShards();
      const event = await store.findEvent(req.params.event_id);
      if (!event) refuseIfPartial(shards, `event ${req.params.event_id}`);
      if (!event) throw new Problem('event_not_found', `no event ${req.params.event_id} is recorded`);
      sendJson(res, 200, event);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  return router;
}

/** Whether the answer has few events in order of time. A scan finds them soon, unless the filter makes them rare. */
function isSmall({ slowest, limit }: EventQuery, mediaType: string): boolean {
  return mediaType === 'application/json' && !slowest && limit <= SMALL_ROWS_MAX;
}

async function sendPage(res: Response, store: Store, query: EventQuery, slot: ScanSlot): Promise<void> {
  const page: Page = { left: query.limit, bytes: 0, last: undefined, hasMore: false };
  const answer = await beginEventAnswer(store, query);
  // One event more than requested shows whether there is a next page. Blocks may share memory, because each block is
  // encoded before the next block is read.
  const scan = answer.store.scan({ ...buildScanRequest(query), limit: query.limit + 1, reusesMemory: true });
  const chunks: Uint8Array[] = [];
  for await (const chunk of slot.limitWhole(encodePageChunks(selectRows(scan, page)))) {
    chunks.push(chunk);
    page.bytes += chunk.length;
    slot.reportGathered(page.bytes);
    await yieldToEventLoop(res);
    if (!isOpen(res)) return;
  }
  const { last, hasMore } = page;
  const nextCursor = hasMore && last ? encodeCursor({ key: last, nowNs: query.nowNs }, query.fingerprint) : null;
  const rest = stringify({
    next_cursor: nextCursor,
    coverage: await answer.describe(await answer.coverEvents(query.filter), query.detail),
  });
  const events = chunks.filter(({ length }) => length > 0);
  // Removes the last comma.
  const lastChunk = events.pop();
  if (lastChunk) events.push(lastChunk.subarray(0, -1));
  res.type('application/json');
  // The promise is not awaited, because a pending frame of this function would keep the chunks in memory.
  return sendChunks(
    res,
    [Buffer.from('{"events":['), ...events, Buffer.from(`],${rest.slice(1)}`)],
    slot.reportGathered,
  );
}

/**
 * Sends the slowest events as a page or as lines. Both are complete before they are sent, because the order by duration
 * depends on all events.
 */
async function sendSlowest(
  req: Request,
  res: Response,
  store: Store,
  query: EventQuery & { slowest: object },
  slot: ScanSlot,
): Promise<void> {
  const isPage = req.accepts(MEDIA_TYPES) === 'application/json';
  if (!isPage && !query.limited) throw createParameterProblem('limit', 'sort=slowest needs one in a stream');
  const { filter, limit, slowest, nowNs } = query;
  const answer = await beginEventAnswer(store, query);
  const page = await runToEnd(res, slot, answer.store.findSlowest({ filter, limit, after: slowest.after }));
  if (!page) return;
  const coverage = await answer.coverEvents(filter);
  const texts: string[] = [];
  let bytes = 0;
  for (const event of page.events) {
    if (isPage && bytes >= WHOLE_BYTES_MAX) break;
    texts.push(stringify(event));
    bytes += texts.at(-1)!.length;
  }
  slot.reportGathered(bytes);
  if (!isPage) {
    res.set({ [LOST]: coverage.lost.toString(), [COMPLETE]: coverage.complete.toString() });
    res.type('application/x-ndjson').send(texts.map((text) => `${text}\n`).join(''));
    return;
  }
  const last = texts.length < page.events.length ? toSlowKey(page.events[texts.length - 1]!) : page.next;
  const nextCursor = last && encodeCursor({ key: toCursorKey(last), nowNs }, query.fingerprint);
  const rest = stringify({
    next_cursor: nextCursor,
    coverage: await answer.describe(coverage, query.detail),
  });
  res.type('application/json').send(`{"events":[${texts.join(',')}],${rest.slice(1)}`);
}

interface Page {
  left: number;
  /** Number of bytes written so far. */
  bytes: number;
  last: EventKey | undefined;
  hasMore: boolean;
}

/** Yields the rows of the page, up to the requested number or the maximum size of a page. */
async function* selectRows(blocks: AsyncIterable<ScannedBlock>, page: Page): AsyncGenerator<ScannedBlock> {
  for await (const scanned of blocks) {
    const { block } = scanned;
    const shown = Math.min(page.left, block.rowCount);
    if (shown < block.rowCount) page.hasMore = true;
    page.left -= shown;
    const cut = createRowCutter(block);
    if (shown === 0) yield { ...scanned, block: cut(0, 0) };
    for (let from = 0; from < shown; from += PART_ROWS) {
      if (page.bytes >= WHOLE_BYTES_MAX) {
        page.hasMore = true;
        return;
      }
      const to = Math.min(from + PART_ROWS, shown);
      page.last = readEventKey(scanned, to - 1);
      yield { ...scanned, block: cut(from, to), nextAtHand: to < shown || scanned.nextAtHand === true };
    }
  }
}

async function sendStream(req: Request, res: Response, store: Store, query: EventQuery, slot: ScanSlot): Promise<void> {
  const answer = await beginEventAnswer(store, query, true);
  const readCoverageHeaders = async () => {
    const { complete, lost } = await answer.coverEvents(query.filter);
    return { [LOST]: lost.toString(), [COMPLETE]: complete.toString() };
  };
  const { recorded_until } = await answer.coverEvents(query.filter);
  if (recorded_until !== null) res.set(RECORDED_UNTIL, recorded_until.toString());
  // Lines contain only events. So the coverage is sent in headers, and again in trailers, when it is final.
  res.set(await readCoverageHeaders());
  if (req.method === 'HEAD') return void res.type('application/x-ndjson').end();
  // HTTP/1.0 has no trailers.
  if (req.httpVersionMinor > 0) res.set('Trailer', [LOST, COMPLETE]);
  const chunks = answer.store.scanJson({ ...buildScanRequest(query), ...(query.limited && { limit: query.limit }) });
  await sendNdjson(res, slot.limitStream(chunks), readCoverageHeaders);
}

/**
 * Refuses columns in any order except ascending time: in each line of columns, times are relative to its first event.
 */
function refuseOtherOrders({ order, slowest }: EventQuery): void {
  const message = 'columns come in order of time only';
  if (slowest) throw createParameterProblem('sort', message);
  if (order === 'desc') throw createParameterProblem('order', message);
}

async function sendColumns(
  req: Request,
  res: Response,
  store: Store,
  query: EventQuery,
  slot: ScanSlot,
): Promise<void> {
  const answer = await beginEventAnswer(store, query, true);
  if (req.method === 'HEAD') return void res.type(COLUMNS).end();
  const limit = query.limited && { limit: query.limit };
  const blocks = answer.store.scan({ ...buildScanRequest(query), ...limit, columns: LINE_COLUMNS, reusesMemory: true });
  await sendLines(
    res,
    COLUMNS,
    addCoverageLine(slot.limitStream(encodeColumnLines(blocks)), async () =>
      answer.describe(await answer.coverEvents(query.filter), query.detail),
    ),
  );
}

/** Ends the answer with the coverage, so that a client can detect a truncated answer even behind a proxy. */
async function* addCoverageLine(
  lines: AsyncIterable<Uint8Array>,
  coverage: () => Promise<object>,
): AsyncGenerator<Uint8Array, void> {
  yield* lines;
  yield Buffer.from(`${stringify({ coverage: await coverage() })}\n`);
}

async function sendTail(
  req: Request,
  res: Response,
  { tails, streamRoom }: Pick<Options, 'tails' | 'streamRoom'>,
  query: TailQuery,
): Promise<void> {
  const start = await tails.findStart({ ...query, lastEventId: req.get('Last-Event-ID') });
  if (!isOpen(res)) return;
  const tail = tails.begin(start);
  streamRoom.enter(res, 'tail_limit');
  const sink = openEventStream(res);
  if (req.method === 'HEAD') sink.end();
  else tail.join(sink);
}

function beginEventAnswer(store: Store, { filter, nowNs }: EventQuery, isStream = false): Promise<CoveredAnswer> {
  return beginAnswer(store, { nowNs, nodes: filter.nodes, filter, isStream });
}

function buildScanRequest({ filter, order, after }: EventQuery): ScanRequest {
  return { filter, order, ...(after && { after }) };
}
