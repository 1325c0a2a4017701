import { randomUUID } from 'node:crypto';
import type { RequestHandler } from 'express';

/** What a caller may choose for itself: it ends up in our log. */
const ACCEPTABLE = /^[\w.-]{1,64}$/;

export const requestId: RequestHandler = (req, res, next) => {
  const given = req.get('X-Request-Id');
  res.set('X-Request-Id', given !== undefined && ACCEPTABLE.test(given) ? given : randomUUID());
  next();
};
