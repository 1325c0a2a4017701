/** The description of one method of one path in the API's document. */
import type { z } from 'zod';
import type { ErrorCode } from '../base/problem.ts';

export interface Endpoint {
  method: 'get' | 'post' | 'patch' | 'delete';
  /** Path as in OpenAPI: `/api/events/{event_id}`. */
  path: string;
  /** Name of the method in generated clients. */
  operationId: string;
  tag: Tag;
  summary: string;
  /** Arguments of a working curl command: `$api` is the daemon; `$transaction`, `$event` and `$session` are ids. */
  curl: string;
  /** Purpose and answer of the endpoint, and the meanings of its common errors. */
  description: string;
  pathParameters?: z.ZodObject;
  /** The schema with which the route validates its query. */
  query?: z.ZodObject;
  headers?: z.ZodObject;
  body?: z.ZodType;
  success: EndpointAnswer;
  /** Errors in addition to COMMON_ERRORS. */
  errors?: readonly ErrorCode[];
}

export interface EndpointAnswer {
  status: 200 | 201 | 204;
  description: string;
  /** Content by media type; a string describes content that is not JSON. */
  content?: Readonly<Record<string, z.ZodType | string>>;
  /** Descriptions of headers by name. */
  headers?: Readonly<Record<string, string>>;
}

/**
 * The body of a request, and the daemon's answers to the request. daemon/server/examples collects the answers, and
 * shortens lists of objects.
 */
export interface Example {
  body?: unknown;
  /**
   * Content by media type: text, or a value that is sent as JSON. Integers that a double may not represent are bigints.
   */
  answers?: Readonly<Record<string, unknown>>;
}

export const TAGS = {
  events: 'What was recorded',
  replay: 'Transactions played again on a clock',
  daemon: 'The daemon itself',
} as const;

export type Tag = keyof typeof TAGS;
