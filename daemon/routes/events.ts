import { type Request, type Response, Router } from 'express';
import { z } from 'zod';
import { wholeEndOf } from '../../agent/recording/transactions.ts';
import { apiEventSchema } from '../../bpf/schema/api.ts';
import { nextPiece } from '../access/pace.ts';
import type { Scan, ScanGate } from '../access/scan_gate.ts';
import { methodNotAllowed, Problem } from '../errors.ts';
import { openEventStream } from '../event_stream.ts';
import { parseQuery } from '../input.ts';
import { sendJson, stringify } from '../json.ts';
import { isOpen, sendNdjson, sendPieces } from '../ndjson.ts';
import { coverageIn, coverageSchema, spansFor, type Window } from '../query/coverage.ts';
import { encodeCursor } from '../query/cursor.ts';
import { type EventQuery, parseEventQuery } from '../query/event_query.ts';
import { noParameters } from '../query/parameters.ts';
import { parseTailQuery, type TailQuery } from '../query/tail_query.ts';
import { rowCutter } from '../store/block_rows.ts';
import { keyOf } from '../store/event.ts';
import { jsonPieces } from '../store/event_json.ts';
import type { EventKey, NodeSpan, ScannedBlock, ScanRequest, Store } from '../store/store.ts';
import type { Tails } from '../tail/tails.ts';

const LOST = 'Kreplay-Lost';
const COMPLETE = 'Kreplay-Complete';
/** Until when all nodes of the query are recorded: it stays what it is while events are sent. */
const RECORDED_UNTIL = 'Kreplay-Recorded-Until';
const EVENT_STREAM = 'text/event-stream';
const MEDIA_TYPES = ['application/json', 'application/x-ndjson', EVENT_STREAM];

export const eventsSchema = z.object({
  events: z.array(apiEventSchema),
  next_cursor: z.string().nullable().meta({ description: 'where the next page begins; null on the last one' }),
  coverage: coverageSchema,
});

interface Options {
  store: Store;
  now: () => bigint;
  scanGate: ScanGate;
  tails: Tails;
}

export function eventRoutes({ store, now, scanGate, tails }: Options): Router {
  const router = Router();
  router
    .route('/')
    .get(async (req, res) => {
      res.vary('Accept');
      const mediaType = req.accepts(MEDIA_TYPES);
      if (!mediaType) throw new Problem('not_acceptable', `events come as ${MEDIA_TYPES.join(' or ')}`);
      if (mediaType === EVENT_STREAM) return sendTail(req, res, tails, parseTailQuery(req.query as never, now()));
      const query = parseEventQuery(req.query as never, now());
      const turn = await scanGate.enter(res);
      // The first piece opens the scan.
      await nextPiece();
      if (mediaType === 'application/json') await sendPage(res, store, query, turn);
      else await sendStream(req, res, store, query, turn);
    })
    .all(methodNotAllowed('GET', 'HEAD'));
  router
    .route('/:event_id')
    .get((req, res) => {
      parseQuery(req.query, noParameters);
      const event = store.event(req.params.event_id);
      if (!event) throw new Problem('event_not_found', `no event ${req.params.event_id} is recorded`);
      sendJson(res, 200, event);
    })
    .all(methodNotAllowed('GET', 'HEAD'));
  return router;
}

async function sendPage(res: Response, store: Store, query: EventQuery, turn: Scan): Promise<void> {
  const page: Page = { left: query.limit, last: undefined, hasMore: false };
  const spans = spansFor(store, query.filter.nodes, query.nowNs);
  // One more than asked for tells whether there is a next page.
  const scan = store.scan({ ...scanOf(query), limit: query.limit + 1 });
  const pieces: Uint8Array[] = [];
  for (const piece of turn.whole(jsonPieces(shownOf(scan, page), ','))) {
    pieces.push(Buffer.from(piece));
    await nextPiece();
    if (!isOpen(res)) return;
  }
  const { last, hasMore } = page;
  const nextCursor = hasMore && last ? encodeCursor({ key: last, nowNs: query.nowNs }, query.fingerprint) : null;
  // After the scan: what can not be read is found by reading it.
  const rest = stringify({
    next_cursor: nextCursor,
    coverage: coverageIn(store, spans, windowOf(store, spans, query)),
  });
  const events = pieces.filter(({ length }) => length > 0);
  // The last comma.
  const lastPiece = events.pop();
  if (lastPiece) events.push(lastPiece.subarray(0, -1));
  res.type('application/json');
  // Not awaited: nothing here may keep what is sent.
  return sendPieces(res, [Buffer.from('{"events":['), ...events, Buffer.from(`],${rest.slice(1)}`)]);
}

interface Page {
  left: number;
  last: EventKey | undefined;
  hasMore: boolean;
}

/** The rows that go onto the page. */
function* shownOf(blocks: Iterable<ScannedBlock>, page: Page): Generator<ScannedBlock> {
  for (const scanned of blocks) {
    const { block, dictionary } = scanned;
    const shown = Math.min(page.left, block.rowCount);
    if (shown < block.rowCount) page.hasMore = true;
    page.left -= shown;
    if (shown > 0) page.last = keyOf(block, shown - 1, dictionary.recordingId);
    yield { ...scanned, block: rowCutter(block)(0, shown) };
  }
}

async function sendStream(req: Request, res: Response, store: Store, query: EventQuery, turn: Scan): Promise<void> {
  const spans = spansFor(store, query.filter.nodes, query.nowNs);
  const known = () => {
    const { complete, lost } = coverageIn(store, spans, windowOf(store, spans, query));
    return { [LOST]: lost.toString(), [COMPLETE]: complete.toString() };
  };
  const { recorded_until } = coverageIn(store, spans, windowOf(store, spans, query));
  if (recorded_until !== null) res.set(RECORDED_UNTIL, recorded_until.toString());
  // Lines are events and nothing else, so what is missing is said ahead of them, and again when it is all known.
  res.set(known());
  if (req.method === 'HEAD') return void res.type('application/x-ndjson').end();
  // HTTP/1.0 has no trailers.
  if (req.httpVersionMinor > 0) res.set('Trailer', [LOST, COMPLETE]);
  const scan = store.scan({ ...scanOf(query), ...(query.limited && { limit: query.limit }) });
  await sendNdjson(res, turn.stream(jsonPieces(scan, '\n')), known);
}

function sendTail(req: Request, res: Response, tails: Tails, query: TailQuery): void {
  const tail = tails.begin({ ...query, lastEventId: req.get('Last-Event-ID') });
  const sink = openEventStream(res);
  if (req.method === 'HEAD') sink.end();
  else tail.join(sink);
}

/** Beyond its last event: an agent that was there for so long would have seen more of the transaction. */
const WENT_ON_NS_MAX = 1_000_000_000n;

/** The window of the query; of one transaction that has ended, its own time. */
function windowOf(store: Store, spans: readonly NodeSpan[], { filter, nowNs }: EventQuery): Window {
  const { fromNs, toNs, nodes, transactionId } = filter;
  const asked = { fromNs, toNs, nodes, nowNs };
  // It may have gone on in a file that cannot be read.
  if (store.unreadable(nodes).length > 0) return asked;
  const transaction = transactionId === undefined ? undefined : store.transaction(transactionId);
  if (!transaction) return asked;
  const endNs = wholeEndOf(transaction) + 1n;
  const recordedUntilNs = spans.reduce((last, span) => (span.toNs > last ? span.toNs : last), 0n);
  // Nobody knows whether it went on after the agent had stopped.
  if (recordedUntilNs < endNs + WENT_ON_NS_MAX) return asked;
  const firstNs = transaction.firstTimestampNs;
  return {
    fromNs: fromNs !== undefined && fromNs > firstNs ? fromNs : firstNs,
    toNs: toNs !== undefined && toNs < endNs ? toNs : endNs,
    nodes: nodes ?? transaction.nodes,
    nowNs,
  };
}

function scanOf({ filter, order, after }: EventQuery): ScanRequest {
  return { filter, order, ...(after && { after }) };
}
