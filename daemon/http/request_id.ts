import { randomUUID } from 'node:crypto';
import type { RequestHandler } from 'express';

/** Ids that a caller may choose are restricted, because they end up in the log. */
const ACCEPTABLE = /^[\w.-]{1,64}$/;

export const requestId: RequestHandler = (req, res, next) => {
  const given = req.get('X-Request-Id');
  res.set('X-Request-Id', given !== undefined && ACCEPTABLE.test(given) ? given : randomUUID());
  next();
};
