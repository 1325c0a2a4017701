/** Examples of what the endpoints of the daemon itself answer. */
import type { Example } from './endpoint.ts';
import { NODE, RECORDING } from './recorded_examples.ts';

const METRICS = `# HELP kreplay_open_streams Streamed answers that are under way, by kind.
# TYPE kreplay_open_streams gauge
kreplay_open_streams{kind="server_sent_events"} 0
kreplay_open_streams{kind="ndjson"} 0
kreplay_open_streams{kind="columns"} 0
`;

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>kreplay API</title>
</head>
</html>
`;

export const DAEMON_EXAMPLES: Readonly<Record<string, Example>> = {
  getLinks: {
    answers: {
      'application/json': {
        name: 'kreplay',
        links: {
          events: 'api/events',
          transactions: 'api/transactions',
          stats: 'api/stats',
          event_types: 'api/event-types',
          services: 'api/services',
          nodes: 'api/nodes',
          pins: 'api/pins',
          access: 'api/access',
          replay_sessions: 'api/replay/sessions',
          health: 'healthz',
          ready: 'readyz',
          openapi: 'openapi.json',
          docs: 'docs',
          guide: 'docs/guide/',
          metrics: 'metrics',
        },
      },
    },
  },
  getAccess: {
    answers: {
      'application/json': {
        token_needed: false,
        name: null,
        scopes: ['events:read', 'replay:control'],
        expires_at: null,
      },
    },
  },
  getHealth: { answers: { 'application/json': { status: 'ok' } } },
  getReadiness: {
    answers: {
      'application/json': {
        status: 'ready',
        recordings: [
          {
            recording_id: RECORDING,
            node: NODE,
            source: 'live',
            damaged: false,
            agent: { state: 'stopped', alive_at: '2025-11-21T00:00:00.000Z' },
          },
        ],
        unreadable: [],
        fleet: null,
        sessions: { kept: true, failure: null },
      },
    },
  },
  getMetrics: { answers: { 'text/plain': METRICS } },
  getDocument: {
    answers: {
      'application/json': {
        openapi: '3.1.0',
        info: {
          title: 'kreplay',
          version: '0.1.0',
          description:
            'Recorded kernel events, and replay. 64-bit integers are exact JSON integers: read them with a parser that keeps them.',
          license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
        },
        servers: [{ url: '/', description: 'the daemon that gave this document' }],
        tags: [{ name: 'daemon', description: 'The daemon itself' }],
        security: [{}, { token: [] }],
        paths: { '/healthz': { get: { operationId: 'getHealth', summary: 'Whether the daemon is alive' } } },
        components: {
          securitySchemes: { token: { type: 'http', scheme: 'bearer', description: 'of `kreplay token`' } },
        },
      },
    },
  },
  getDocs: { answers: { 'text/html': PAGE } },
};
