/** Sends an answer in JSON. */
import type { Response } from 'express';
import { stringify } from '../base/exact_json.ts';

export function sendJson(res: Response, status: number, value: unknown, type = 'application/json'): void {
  res.status(status).type(type).send(stringify(value));
}
