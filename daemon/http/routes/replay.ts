/** Replay sessions over HTTP. */
import { type Request, type RequestHandler, type Response, Router } from 'express';
import type { z } from 'zod';
import { stringify } from '../../base/exact_json.ts';
import { Problem } from '../../base/problem.ts';
import { noParameters } from '../../contract/parameters.ts';
import { parseQuery } from '../../contract/query_string.ts';
import {
  changeRequest,
  createRequest,
  noFields,
  playRequest,
  seekRequest,
  stepRequest,
  streamParameters,
  TIMELINE_LIMIT_DEFAULT,
  timelineParameters,
} from '../../contract/replay_requests.ts';
import { buildSessionsPage } from '../../contract/sessions_query.ts';
import type { Session } from '../../replay/session/session.ts';
import type { SessionChange } from '../../replay/session/session_view.ts';
import type { Sessions } from '../../replay/session/sessions.ts';
import type { WantedFrames } from '../../replay/session/stream.ts';
import type { Store } from '../../store/store.ts';
import { type ScanGate, WHOLE_BYTES_MAX } from '../access/scan_gate.ts';
import type { StreamRoom } from '../access/stream_room.ts';
import { parseBody } from '../body.ts';
import { openEventStream } from '../event_stream.ts';
import { sendNdjson } from '../ndjson.ts';
import { refuseOtherMethods } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';
import { createTransactionOffsetsReader } from './asked_offsets.ts';

/**
 * Maximum number of events of a step that needs no slot. A larger step waits for a slot, because its answer is as large
 * as a query's.
 */
const STEP_EVENTS_AT_ONCE = 256;

interface Options {
  store: Store;
  /** The sessions outlive the router; their creator closes them. */
  sessions: Sessions;
  scanGate: ScanGate;
  streamRoom: StreamRoom;
}

export function createReplayRoutes({ store, sessions, scanGate, streamRoom }: Options): Router {
  const router = Router();
  const getSession = (req: Request) => sessions.get(String(req.params.id));
  const openSession = (req: Request) => sessions.open(String(req.params.id));
  /** Rejects query parameters, which would silently have no effect. */
  const refuseParameters: RequestHandler = (req, _res, next) => {
    parseQuery(req.query, noParameters);
    next();
  };

  router
    .route('/')
    .post(refuseParameters, async (req, res) => {
      const { clock_offsets_ns, ...request } = parseBody(req, createRequest);
      const offsets = createTransactionOffsetsReader(store, clock_offsets_ns, request.transaction_id);
      // The request takes a slot, because all events of the transaction are read.
      await scanGate.enter(res);
      const session = await sessions.create(request, await offsets());
      const view = session.view();
      // The location is relative, because a proxy may serve the API under a path that the daemon does not know.
      res.location(`sessions/${view.session_id}`);
      sendJson(res, 201, view);
    })
    .get((req, res) => {
      const views = sessions.list().map((session) => session.view());
      sendJson(res, 200, buildSessionsPage(req.query as never, views));
    })
    .all(refuseOtherMethods('GET', 'HEAD', 'POST'));

  router
    .route('/:id')
    .all(refuseParameters)
    .get((req, res) => sendJson(res, 200, getSession(req).view()))
    .delete(async (req, res) => {
      await sessions.remove(req.params.id);
      res.status(204).end();
    })
    .patch(async (req, res) => {
      const session = await openSession(req);
      await session.change(toSessionChange(parseBody(req, changeRequest)));
      const view = session.view();
      await sessions.save();
      sendJson(res, 200, view);
    })
    .all(refuseOtherMethods('GET', 'HEAD', 'PATCH', 'DELETE'));

  const addCommandRoute = (name: string, act: (session: Session, req: Request, res: Response) => Promise<string>) =>
    router
      .route(`/:id/${name}`)
      .all(refuseParameters)
      .post(async (req, res) => {
        const answer = await act(await openSession(req), req, res);
        // The sessions are saved before the answer, so that an acknowledged change survives no matter how the daemon
        // ends.
        await sessions.save();
        res.status(200).type('application/json').send(answer);
      })
      .all(refuseOtherMethods('POST'));
  const addBareCommandRoute = (name: 'pause' | 'stop') =>
    addCommandRoute(name, async (session, req) => {
      parseBody(req, noFields);
      await session[name]();
      return stringify(session.view());
    });
  addCommandRoute('play', async (session, req) => {
    await session.play(parseBody(req, playRequest).until);
    return stringify(session.view());
  });
  addBareCommandRoute('pause');
  addBareCommandRoute('stop');
  addCommandRoute('seek', async (session, req) => {
    await session.seek(parseBody(req, seekRequest));
    return stringify(session.view());
  });
  addCommandRoute('step', async (session, req, res) => {
    const { count } = parseBody(req, stepRequest);
    if (count > STEP_EVENTS_AT_ONCE) await scanGate.enter(res);
    const events = await session.step(count);
    return `{"session":${stringify(session.view())},"events":[${events.join(',')}]}`;
  });

  router
    .route('/:id/timeline')
    .get(async (req, res) => sendTimeline(await openSession(req), scanGate, req, res))
    .all(refuseOtherMethods('GET', 'HEAD'));

  router
    .route('/:id/events')
    .head((req, res) => {
      parseQuery(req.query as never, streamParameters);
      getSession(req);
      openEventStream(res);
      res.end();
    })
    .get(async (req, res) => {
      const { frames } = parseQuery(req.query as never, streamParameters);
      joinStream(await openSession(req), streamRoom, frames?.wanted, req, res);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  return router;
}

function toSessionChange({ extra_latency_ns, loop, only, ...asked }: z.output<typeof changeRequest>): SessionChange {
  const { speed_factor: speedFactor, timeout_ns: timeoutNs, max_gap_ns: maxGapNs } = asked;
  const extraLatencyNs = extra_latency_ns === undefined ? undefined : Number(extra_latency_ns);
  return { speedFactor, extraLatencyNs, loop, timeoutNs, maxGapNs, only };
}

async function sendTimeline(session: Session, scanGate: ScanGate, req: Request, res: Response): Promise<void> {
  res.vary('Accept');
  const mediaType = req.accepts(['application/json', 'application/x-ndjson']);
  if (!mediaType) throw new Problem('not_acceptable', 'a time line comes as application/json or application/x-ndjson');
  const { event_index: index = 0, limit } = parseQuery(req.query, timelineParameters);
  const slot = await scanGate.enter(res);
  if (mediaType === 'application/x-ndjson') {
    if (req.method === 'HEAD') res.type(mediaType).end();
    else await sendNdjson(res, encodeLines(session.timeline(index, limit ?? Number.POSITIVE_INFINITY)));
    return;
  }
  const events: string[] = [];
  let bytes = 0;
  for await (const page of session.timeline(index, limit ?? TIMELINE_LIMIT_DEFAULT)) {
    events.push(...page);
    for (const json of page) bytes += json.length;
    slot.reportGathered(bytes);
    if (bytes >= WHOLE_BYTES_MAX) break;
  }
  const nextIndex = index + events.length;
  const next = nextIndex < session.eventCount ? nextIndex : null;
  res
    .status(200)
    .type(mediaType)
    .send(`{"events":[${events.join(',')}],"next_event_index":${next}}`);
  // The response now has the gathered bytes, and its unsent bytes are counted separately.
  slot.reportGathered(0);
}

async function* encodeLines(pages: AsyncIterable<string[]>): AsyncGenerator<Buffer, void> {
  for await (const page of pages) yield Buffer.from(page.map((json) => `${json}\n`).join(''));
}

function joinStream(
  session: Session,
  streamRoom: StreamRoom,
  wanted: WantedFrames | undefined,
  req: Request,
  res: Response,
): void {
  const lastId = parseLastEventId(session, req.get('Last-Event-ID'));
  // A stopped session has nothing new for a client that has seen all frames; 204 keeps a browser from reconnecting.
  if (session.state === 'stopped' && lastId !== null && session.stream.isNewest(lastId)) {
    res.status(204).end();
    return;
  }
  session.stream.checkRoom();
  streamRoom.enter(res, 'session_limit');
  const sink = openEventStream(res);
  if (wanted) session.stream.watch(sink, lastId, wanted);
  else session.stream.join(sink, lastId);
}

function parseLastEventId(session: Session, header: string | undefined): number | null {
  if (header === undefined || header === '') return null;
  const id = /^\d+$/.test(header) ? Number(header) : Number.NaN;
  if (session.stream.isKnownId(id)) return id;
  const message = `${JSON.stringify(header)} is not an id of this session's stream`;
  throw new Problem('invalid_parameter', `Last-Event-ID: ${message}`, [{ parameter: 'Last-Event-ID', message }]);
}
