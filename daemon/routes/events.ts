import { setImmediate } from 'node:timers/promises';
import { type Request, type Response, Router } from 'express';
import type { ApiEvent } from '../../bpf/schema/api.ts';
import type { Scan, ScanGate } from '../access/scan_gate.ts';
import { methodNotAllowed, Problem } from '../errors.ts';
import { openEventStream } from '../event_stream.ts';
import { parseQuery } from '../input.ts';
import { sendJson, stringify } from '../json.ts';
import { isOpen, sendNdjson } from '../ndjson.ts';
import { coverageIn } from '../query/coverage.ts';
import { encodeCursor } from '../query/cursor.ts';
import { type EventQuery, parseEventQuery } from '../query/event_query.ts';
import { noParameters } from '../query/parameters.ts';
import { parseTailQuery, type TailQuery } from '../query/tail_query.ts';
import { scanPieces } from '../store/event.ts';
import type { ScanRequest, Store } from '../store/store.ts';
import type { Tails } from '../tail/tails.ts';

const EVENT_STREAM = 'text/event-stream';
const MEDIA_TYPES = ['application/json', 'application/x-ndjson', EVENT_STREAM];

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
  // One more than asked for tells whether there is a next page.
  const scan = store.scan({ ...scanOf(query), limit: query.limit + 1 });
  const texts: string[] = [];
  let last: ApiEvent | undefined;
  let nextCursor: string | null = null;
  for (const piece of turn.whole(scanPieces(scan))) {
    const shown = piece.slice(0, query.limit - texts.length);
    for (const event of shown) texts.push(stringify(event));
    last = shown.at(-1) ?? last;
    if (shown.length < piece.length) nextCursor = encodeCursor({ key: last!, nowNs: query.nowNs }, query.fingerprint);
    await setImmediate();
    if (!isOpen(res)) return;
  }
  // After the scan: what can not be read is found by reading it.
  const rest = stringify({ next_cursor: nextCursor, coverage: coverageIn(store, windowOf(query)) });
  res.type('application/json').send(`{"events":[${texts.join(',')}],${rest.slice(1)}`);
}

async function sendStream(req: Request, res: Response, store: Store, query: EventQuery, turn: Scan): Promise<void> {
  const { complete, lost } = coverageIn(store, windowOf(query));
  // Lines are events and nothing else, so what is missing is said ahead of them.
  res.set({ 'Kreplay-Lost': lost.toString(), 'Kreplay-Complete': complete.toString() });
  if (req.method === 'HEAD') return void res.type('application/x-ndjson').end();
  const scan = store.scan({ ...scanOf(query), ...(query.limited && { limit: query.limit }) });
  await sendNdjson(res, turn.stream(scanPieces(scan)));
}

function sendTail(req: Request, res: Response, tails: Tails, query: TailQuery): void {
  const tail = tails.begin({ ...query, lastEventId: req.get('Last-Event-ID') });
  openEventStream(res);
  if (req.method === 'HEAD') res.end();
  else tail.join(res);
}

function windowOf({ filter: { fromNs, toNs, nodes }, nowNs }: EventQuery) {
  return { fromNs, toNs, nodes, nowNs };
}

function scanOf({ filter, order, after }: EventQuery): ScanRequest {
  return { filter, order, ...(after && { after }) };
}
