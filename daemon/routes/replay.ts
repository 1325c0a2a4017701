/** Replay sessions over HTTP. */
import { type Request, type RequestHandler, type Response, Router } from 'express';
import type { ScanGate } from '../access/scan_gate.ts';
import { methodNotAllowed, Problem } from '../errors.ts';
import { openEventStream } from '../event_stream.ts';
import { parseBody, parseQuery } from '../input.ts';
import { sendJson } from '../json.ts';
import { noParameters } from '../query/parameters.ts';
import { createRequest, noFields, seekRequest, stepRequest } from '../replay/contract.ts';
import type { Session } from '../replay/session.ts';
import type { Sessions } from '../replay/sessions.ts';

/** `sessions` outlives the router: who made it closes it. */
export function replayRoutes(sessions: Sessions, scanGate: ScanGate): Router {
  const router = Router();
  const sessionOf = (req: Request) => sessions.get(String(req.params.id));
  /** Query parameters would be silently without effect. */
  const plain: RequestHandler = (req, _res, next) => {
    parseQuery(req.query, noParameters);
    next();
  };
  router.use(plain);

  router
    .route('/')
    .post(async (req, res) => {
      const request = parseBody(req, createRequest);
      // All events of the transaction are read.
      await scanGate.enter(res);
      const session = await sessions.create(request);
      const view = session.view();
      res.location(`${req.baseUrl}/${view.session_id}`);
      sendJson(res, 201, view);
    })
    .get((_req, res) => sendJson(res, 200, { sessions: sessions.list().map((session) => session.view()) }))
    .all(methodNotAllowed('GET', 'HEAD', 'POST'));

  router
    .route('/:id')
    .get((req, res) => sendJson(res, 200, sessionOf(req).view()))
    .delete((req, res) => {
      sessions.remove(req.params.id);
      res.status(204).end();
    })
    .all(methodNotAllowed('GET', 'HEAD', 'DELETE'));

  const command = (name: string, act: (session: Session, req: Request) => object) =>
    router
      .route(`/:id/${name}`)
      .post((req, res) => {
        const session = sessionOf(req);
        sendJson(res, 200, act(session, req));
      })
      .all(methodNotAllowed('POST'));
  const bare = (name: 'play' | 'pause' | 'stop') =>
    command(name, (session, req) => {
      parseBody(req, noFields);
      session[name]();
      return session.view();
    });
  bare('play');
  bare('pause');
  bare('stop');
  command('seek', (session, req) => {
    session.seek(parseBody(req, seekRequest));
    return session.view();
  });
  command('step', (session, req) => {
    const { count } = parseBody(req, stepRequest);
    const events = session.step(count);
    return { session: session.view(), events };
  });

  router
    .route('/:id/events')
    .head((req, res) => {
      sessionOf(req);
      openEventStream(res);
      res.end();
    })
    .get((req, res) => joinStream(sessionOf(req), req, res))
    .all(methodNotAllowed('GET', 'HEAD'));
  return router;
}

function joinStream(session: Session, req: Request, res: Response): void {
  const lastId = lastEventId(session, req.get('Last-Event-ID'));
  // A stopped session has no more to tell to one who knows all; 204 keeps a browser from asking again and again.
  if (session.state === 'stopped' && lastId !== null && session.stream.toldAll(lastId)) {
    res.status(204).end();
    return;
  }
  session.stream.checkRoom();
  openEventStream(res);
  session.stream.join(res, lastId);
}

function lastEventId(session: Session, header: string | undefined): number | null {
  if (header === undefined || header === '') return null;
  const id = /^\d+$/.test(header) ? Number(header) : Number.NaN;
  if (session.stream.knows(id)) return id;
  const message = `${JSON.stringify(header)} is not an id of this session's stream`;
  throw new Problem('invalid_parameter', `Last-Event-ID: ${message}`, [{ parameter: 'Last-Event-ID', message }]);
}
