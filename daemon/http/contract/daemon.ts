/** Describes the endpoints of the daemon itself for the API's document. */
import { z } from 'zod';
import { healthResponse, readyResponse } from './answers.ts';
import type { Endpoint } from './endpoint.ts';

export const DAEMON_ENDPOINTS: readonly Endpoint[] = [
  {
    method: 'get',
    path: '/',
    operationId: 'getLinks',
    tag: 'daemon',
    summary: 'Where to go on from',
    curl: '"$api/"',
    success: {
      status: 200,
      description: 'Paths by name.',
      content: { 'application/json': z.object({ name: z.string(), links: z.record(z.string(), z.string()) }) },
    },
    errors: ['invalid_parameter'],
  },
  {
    method: 'get',
    path: '/healthz',
    operationId: 'getHealth',
    tag: 'daemon',
    summary: 'Whether the daemon is alive',
    curl: '"$api/healthz"',
    success: {
      status: 200,
      description: 'It is.',
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
    curl: '"$api/readyz"',
    success: {
      status: 200,
      description: 'There is.',
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
    curl: '"$api/metrics"',
    success: { status: 200, description: 'For Prometheus.', content: { 'text/plain': "Prometheus' text format" } },
    errors: ['invalid_parameter'],
  },
  {
    method: 'get',
    path: '/openapi.json',
    operationId: 'getDocument',
    tag: 'daemon',
    summary: 'This document',
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
    curl: '"$api/docs"',
    success: {
      status: 200,
      description: 'A page that loads nothing from elsewhere.',
      content: { 'text/html': 'HTML' },
    },
    errors: ['invalid_parameter'],
  },
];
