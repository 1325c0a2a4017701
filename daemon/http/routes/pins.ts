/** Pins transactions, so that retention keeps them. */
import { type Request, type RequestHandler, Router } from 'express';
import { Problem } from '../../base/problem.ts';
import { addTimeTexts } from '../../base/time_text.ts';
import { noParameters } from '../../contract/parameters.ts';
import { pinRequest } from '../../contract/pin_request.ts';
import { parseQuery } from '../../contract/query_string.ts';
import type { Pin, Store } from '../../store/store.ts';
import { parseBody } from '../body.ts';
import { refuseOtherMethods } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';
import { refuseIfPartial } from './partial.ts';

const NS_PER_MS = 1_000_000n;

interface Options {
  store: Store;
  now: () => bigint;
}

export function pinRoutes({ store, now }: Options): Router {
  const router = Router();
  /** Rejects query parameters, which would silently have no effect. */
  const refuseParameters: RequestHandler = (req, _res, next) => {
    parseQuery(req.query, noParameters);
    next();
  };
  const getTransactionId = (req: Request) => String(req.params.transaction_id);

  router
    .route('/pins')
    .get(refuseParameters, async (_req, res) => {
      const shards = store.fleet?.watchShards();
      const known = await store.listPins();
      refuseIfPartial(shards, 'a pin');
      const pins = known.map((pin) => ({
        transaction_id: pin.transactionId,
        ...addTimeTexts({ from: pin.fromNs }),
        pinned_at: formatWallTime(pin.pinnedNs),
        node: pin.node,
      }));
      sendJson(res, 200, { pins });
    })
    .all(refuseOtherMethods('GET', 'HEAD'));

  router
    .route('/transactions/:transaction_id/pin')
    .post(refuseParameters, async (req, res) => {
      const transactionId = getTransactionId(req);
      const { before_ms: beforeNs } = parseBody(req, pinRequest);
      const pins = await store.pin({ transactionId, beforeNs, nowNs: now() });
      if (!pins) throw new Problem('transaction_not_found', `no events of transaction ${transactionId} are recorded`);
      sendJson(res, 200, buildPinView(transactionId, pins));
    })
    .delete(refuseParameters, async (req, res) => {
      const transactionId = getTransactionId(req);
      if (!(await store.unpin(transactionId)))
        throw new Problem('not_pinned', `transaction ${transactionId} is not pinned`);
      res.status(204).end();
    })
    .all(refuseOtherMethods('POST', 'DELETE'));
  return router;
}

function buildPinView(transactionId: string, pins: readonly Pin[]) {
  const [oldest] = pins;
  const from = pins.reduce<bigint | null>(
    (least, { fromNs }) => (least === null || fromNs < least ? fromNs : least),
    null,
  );
  return {
    transaction_id: transactionId,
    ...addTimeTexts({ from }),
    pinned_at: oldest ? formatWallTime(oldest.pinnedNs) : null,
    nodes: [...new Set(pins.map(({ node }) => node))].sort(),
  };
}

function formatWallTime(ns: bigint): string {
  return new Date(Number(ns / NS_PER_MS)).toISOString();
}
