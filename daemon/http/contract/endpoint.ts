/** What a document of the API tells of one method of one path. */
import type { z } from 'zod';
import type { ErrorCode } from '../../problem.ts';

export interface Endpoint {
  method: 'get' | 'post' | 'patch' | 'delete';
  /** As in OpenAPI: `/api/events/{event_id}`. */
  path: string;
  /** Names the method in clients that are made from the document. */
  operationId: string;
  tag: Tag;
  summary: string;
  /** Arguments of a curl that works: `$api` is the daemon, `$transaction`, `$event` and `$session` are what they say. */
  curl: string;
  description?: string;
  pathParameters?: z.ZodObject;
  /** The schema that the route validates with. */
  query?: z.ZodObject;
  headers?: z.ZodObject;
  body?: z.ZodType;
  success: Answer;
  /** Beside those that every request can meet. */
  errors?: readonly ErrorCode[];
}

export interface Answer {
  status: 200 | 201 | 204;
  description: string;
  /** By media type; a string describes what is no JSON document. */
  content?: Readonly<Record<string, z.ZodType | string>>;
  /** Name and meaning. */
  headers?: Readonly<Record<string, string>>;
}

export const TAGS = {
  events: 'What was recorded',
  replay: 'Transactions played again on a clock',
  daemon: 'The daemon itself',
} as const;

export type Tag = keyof typeof TAGS;
