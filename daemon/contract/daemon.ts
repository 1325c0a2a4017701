/** Describes the endpoints of the daemon itself for the API's document. */
import { z } from 'zod';
import { accessResponse, healthResponse, readyResponse } from './answers.ts';
import type { Endpoint } from './endpoint.ts';

export const DAEMON_ENDPOINTS: readonly Endpoint[] = [
  {
    method: 'get',
    path: '/',
    operationId: 'getLinks',
    tag: 'daemon',
    summary: 'Where to go on from',
    description:
      'Lists the paths of the API by name, for a client that knows only the address of the daemon. It reads no recording, ' +
      'and takes no parameters: a request with one is refused with `invalid_parameter`. A browser, which prefers ' +
      '`text/html`, gets the web page.',
    curl: '"$api/"',
    success: {
      status: 200,
      description: 'Paths by name.',
      content: {
        'application/json': z.object({ name: z.string(), links: z.record(z.string(), z.string()) }),
      },
    },
    errors: ['invalid_parameter'],
  },
  {
    method: 'get',
    path: '/api/access',
    operationId: 'getAccess',
    tag: 'daemon',
    summary: 'What the asking client may do',
    description:
      'Says whether this daemon requires tokens, and what the token of the request permits and until when, so that a ' +
      'page can offer what will succeed. Any valid token may ask, whatever its scopes; without one the answer is ' +
      '`unauthorized` where tokens are required. `events:read` permits to read what was recorded, `replay:control` ' +
      'to play sessions and to pin.',
    curl: '"$api/api/access"',
    success: {
      status: 200,
      description: 'Scopes and expiry.',
      content: { 'application/json': accessResponse },
    },
    errors: ['invalid_parameter'],
  },
  {
    method: 'get',
    path: '/healthz',
    operationId: 'getHealth',
    tag: 'daemon',
    summary: 'Whether the daemon is alive',
    description:
      'Serves supervisors: the answer is the same as long as the daemon handles requests, whatever the state of its ' +
      'recordings, which is in `/readyz`. No answer means that the daemon has ended or hangs.',
    curl: '"$api/healthz"',
    success: {
      status: 200,
      description: 'The daemon is alive.',
      content: { 'application/json': healthResponse },
    },
    errors: ['invalid_parameter'],
  },
  {
    method: 'get',
    path: '/readyz',
    operationId: 'getReadiness',
    tag: 'daemon',
    summary: 'Whether there is a recording that can be read',
    description:
      'Serves load balancers and alerts: it returns each recording that is served with the state of its agent, the ' +
      'imports that cannot be read, and whether sessions are kept. A daemon whose agent has stopped is ready, ' +
      'because what was recorded can still be queried. A daemon that serves a fleet says how many nodes are current, ' +
      'silent and ended, and `recording_unavailable` means that its server does not answer. `recording_missing` means that nothing has been recorded ' +
      'yet; the other errors of status 503 name the recording that cannot be read, and why.',
    curl: '"$api/readyz"',
    success: {
      status: 200,
      description: 'A recording, or the fleet, can be read.',
      content: { 'application/json': readyResponse },
    },
    errors: ['invalid_parameter'],
  },
  {
    method: 'get',
    path: '/metrics',
    operationId: 'getMetrics',
    tag: 'daemon',
    summary: 'Numbers of the daemon and its agent',
    description:
      'Returns counters, gauges and histograms of the daemon and of a running agent, for Prometheus to scrape; ' +
      'daemon/docs/operate.md explains each. It takes no parameters: a request with one is refused with ' +
      '`invalid_parameter`.',
    curl: '"$api/metrics"',
    success: {
      status: 200,
      description: 'Metrics for Prometheus.',
      content: { 'text/plain': "Prometheus' text format" },
    },
    errors: ['invalid_parameter'],
  },
  {
    method: 'get',
    path: '/openapi.json',
    operationId: 'getDocument',
    tag: 'daemon',
    summary: 'This document',
    description:
      'Describes every path, parameter, answer and error of the API in OpenAPI 3.1, for generators of clients and ' +
      'for other tools. It is made from the schemas that validate requests, so it fits the version of this daemon. ' +
      '`unauthorized` means that the daemon has tokens, of which any will do here.',
    curl: '"$api/openapi.json"',
    success: { status: 200, description: 'OpenAPI 3.1.', content: { 'application/json': z.object({}).loose() } },
    errors: ['invalid_parameter'],
  },
  {
    method: 'get',
    path: '/docs',
    operationId: 'getDocs',
    tag: 'daemon',
    summary: 'This document as a page',
    description:
      'Shows the document to a person, with an example for each operation and a form that sends requests to this ' +
      'daemon. `unauthorized` means that the daemon has tokens: a browser sends none by itself, so a proxy has to ' +
      'add one.',
    curl: '"$api/docs"',
    success: {
      status: 200,
      description: 'A page that loads nothing from elsewhere.',
      content: { 'text/html': 'HTML' },
    },
    errors: ['invalid_parameter'],
  },
];
