/** Describes the endpoints that list the values of filters, for the API's document. */
import { z } from 'zod';
import type { Endpoint } from './endpoint.ts';

const list = (name: string, schema: z.ZodType) => ({ 'application/json': z.object({ [name]: z.array(schema) }) });

export const NAME_ENDPOINTS: readonly Endpoint[] = [
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
      description: 'Each with what it is.',
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
    success: { status: 200, description: 'By name.', content: list('services', z.string()) },
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
    success: { status: 200, description: 'By name.', content: list('nodes', z.string()) },
    errors: ['invalid_parameter'],
  },
];
