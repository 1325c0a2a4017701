/** Builds the API's OpenAPI document from the schemas that validate requests. */
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { createDocument, type ZodOpenApiOperationObject, type ZodOpenApiResponsesObject } from 'zod-openapi';
import { ERRORS, type ErrorCode } from '../base/problem.ts';
import { problemSchema } from './answers.ts';
import { DAEMON_ENDPOINTS } from './daemon.ts';
import { DIFFERENCES_ENDPOINTS } from './differences.ts';
import { type Endpoint, type EndpointAnswer, type Example, TAGS } from './endpoint.ts';
import { EVENT_ENDPOINTS } from './events.ts';
import { EXAMPLES } from './gen/examples.ts';
import { HEATMAP_ENDPOINTS } from './heatmap.ts';
import { REPLAY_ENDPOINTS } from './replay.ts';

const list = (name: string, schema: z.ZodType) => ({ 'application/json': z.object({ [name]: z.array(schema) }) });

const NAME_ENDPOINTS: readonly Endpoint[] = [
  {
    method: 'get',
    path: '/api/event-types',
    operationId: 'listEventTypes',
    tag: 'events',
    summary: 'Types of event that are recorded',
    description:
      'Lists the values that `event_type` accepts in a query, each with a sentence on what such an event is. The ' +
      'list depends on the version of the daemon, not on what was recorded. It takes no parameters: a request with ' +
      'one is refused with `invalid_parameter`.',
    curl: '"$api/api/event-types"',
    success: {
      status: 200,
      description: 'Each type with its description.',
      content: list('event_types', z.object({ name: z.string(), description: z.string() })),
    },
    errors: ['invalid_parameter'],
  },
  {
    method: 'get',
    path: '/api/services',
    operationId: 'listServices',
    tag: 'events',
    summary: 'Services that have events',
    description:
      'Lists the values of `service` that find something: every service that owns an event or a part of one, sorted ' +
      'by name. `recording_missing` means that nothing has been recorded yet.',
    curl: '"$api/api/services"',
    success: { status: 200, description: 'Names, sorted.', content: list('services', z.string()) },
    errors: ['invalid_parameter'],
  },
  {
    method: 'get',
    path: '/api/nodes',
    operationId: 'listNodes',
    tag: 'events',
    summary: 'Hosts whose recordings are served',
    description:
      'Lists the values of `node` that find something: every host of which a recording is served, sorted by name. ' +
      '`recording_missing` means that nothing has been recorded yet.',
    curl: '"$api/api/nodes"',
    success: { status: 200, description: 'Names, sorted.', content: list('nodes', z.string()) },
    errors: ['invalid_parameter'],
  },
];

export const ENDPOINTS: readonly Endpoint[] = [
  ...EVENT_ENDPOINTS,
  ...HEATMAP_ENDPOINTS,
  ...DIFFERENCES_ENDPOINTS,
  ...NAME_ENDPOINTS,
  ...REPLAY_ENDPOINTS,
  ...DAEMON_ENDPOINTS,
];

/** Errors that any request can cause. */
export const COMMON_ERRORS: readonly ErrorCode[] = [
  'malformed_request',
  'unauthorized',
  'forbidden',
  'forbidden_origin',
  'forbidden_host',
  'too_many_attempts',
  'internal',
];

/** Errors that any request that reads a recording can cause. */
const RECORDING_ERRORS: readonly ErrorCode[] = [
  'recording_missing',
  'not_a_recording',
  'unsupported_format',
  'recording_corrupt',
  'recording_unavailable',
];

const READS_NO_RECORDING: ReadonlySet<string> = new Set([
  '/',
  '/healthz',
  '/metrics',
  '/api/access',
  '/api/event-types',
  '/openapi.json',
  '/docs',
]);

const { version } = JSON.parse(readFileSync(new URL(import.meta.resolve('#package')), 'utf8')) as { version: string };

/** Returns all error codes with which the endpoint can answer. */
export function listErrorCodes({ path, errors = [] }: Endpoint): ErrorCode[] {
  return [...COMMON_ERRORS, ...errors, ...(READS_NO_RECORDING.has(path) ? [] : RECORDING_ERRORS)];
}

export function openApiDocument(): ReturnType<typeof createDocument> {
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {};
  for (const endpoint of ENDPOINTS)
    paths[endpoint.path] = { ...paths[endpoint.path], [endpoint.method]: buildOperation(endpoint) };
  return createDocument(
    {
      openapi: '3.1.0',
      info: {
        title: 'kreplay',
        version,
        description:
          'Recorded kernel events, and replay. 64-bit integers are exact JSON integers: read them with a parser that keeps them.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '.', description: 'the daemon that gave this document' }],
      tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
      // The empty alternative is for a daemon that has no tokens and serves only its own machine.
      security: [{}, { token: [] }],
      components: {
        securitySchemes: { token: { type: 'http', scheme: 'bearer', description: 'token made by `kreplay token`' } },
      },
      paths,
    },
    { override: describeBigint },
  );
}

/** Describes bigints, because zod is unable to convert them to a JSON schema. */
function describeBigint({ jsonSchema, zodSchema }: { jsonSchema: object; zodSchema: z.core.$ZodType }): void {
  if (zodSchema._zod.def.type === 'bigint') Object.assign(jsonSchema, { type: 'integer', format: 'int64' });
}

function buildOperation(endpoint: Endpoint): ZodOpenApiOperationObject {
  const { operationId, tag, summary, description, pathParameters, query, headers, body, success } = endpoint;
  const example: Example = EXAMPLES[operationId] ?? {};
  return {
    operationId,
    tags: [tag],
    summary,
    description,
    requestParams: {
      ...(pathParameters && { path: pathParameters }),
      ...(query && { query }),
      ...(headers && { header: headers }),
    },
    ...(body && { requestBody: { content: { 'application/json': { schema: body, example: example.body } } } }),
    responses: { [success.status]: answer(success, example), ...buildProblemResponses(listErrorCodes(endpoint)) },
  };
}

function answer({ description, content = {}, headers = {} }: EndpointAnswer, { answers = {} }: Example) {
  return {
    description,
    ...(Object.keys(content).length > 0 && {
      content: Object.fromEntries(
        Object.entries(content).map(([type, schema]) => [
          type,
          {
            schema: typeof schema === 'string' ? { type: 'string' as const, description: schema } : schema,
            example: answers[type],
          },
        ]),
      ),
    }),
    ...(Object.keys(headers).length > 0 && {
      headers: Object.fromEntries(
        Object.entries(headers).map(([name, meaning]) => [
          name,
          { description: meaning, schema: { type: 'string' as const } },
        ]),
      ),
    }),
  };
}

/** Errors that may no longer occur when the request is retried. */
const PASSING: ReadonlySet<ErrorCode> = new Set([
  'busy',
  'query_timeout',
  'too_many_attempts',
  'shutting_down',
  'replay_capacity',
]);

const RETRY_AFTER = { 'Retry-After': { description: 'seconds', schema: { type: 'integer' as const } } };

function buildProblemResponses(codes: readonly ErrorCode[]): ZodOpenApiResponsesObject {
  const byStatus = Map.groupBy(codes, (code) => ERRORS[code].status);
  return Object.fromEntries(
    [...byStatus].map(([status, ofStatus]) => [
      status,
      {
        description: ofStatus.map((code) => `\`${code}\``).join(', '),
        ...(ofStatus.some((code) => PASSING.has(code)) && { headers: RETRY_AFTER }),
        content: { 'application/problem+json': { schema: problemSchema } },
      },
    ]),
  );
}
