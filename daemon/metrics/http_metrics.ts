/** Metrics of answers: durations, and streams in progress. */
import { Counter, Gauge, Histogram, type Registry } from '@prometheus-io/client';
import type { RequestHandler, Response } from 'express';
import { ERRORS } from '../base/problem.ts';
import type { EndedRequest } from '../http/request_log.ts';

const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Maps the media type of an answer that lasts until either side ends it to its label in the metric. */
const STREAMS: Readonly<Record<string, string>> = {
  'text/event-stream': 'server_sent_events',
  'application/x-ndjson': 'ndjson',
  'application/vnd.kreplay.columns': 'columns',
};

export function httpMetrics(registry: Registry) {
  const durations = new Histogram({
    name: 'kreplay_http_request_duration_seconds',
    help: 'From a request to the end of its answer, by the pattern of its route; server-sent events are not in it.',
    labelNames: ['method', 'route', 'status'],
    buckets: REQUEST_SECONDS,
    registers: [registry],
  });
  const problems = new Counter({
    name: 'kreplay_http_problems_total',
    help: 'Answers that were an error, by the code of its problem document.',
    labelNames: ['code'],
    registers: [registry],
  });
  // Series start at 0, so that the first event is an increase.
  for (const code of Object.keys(ERRORS)) problems.inc({ code }, 0);
  const open = new Gauge({
    name: 'kreplay_open_streams',
    help: 'Streamed answers that are under way, by kind.',
    labelNames: ['kind'],
    registers: [registry],
  });
  const answers = new Set<Response>();

  const watchStreams: RequestHandler = (_req, res, next) => {
    answers.add(res);
    res.once('close', () => answers.delete(res));
    next();
  };

  return {
    watchStreams,
    ended({ method, route, status, code, seconds, isLive }: EndedRequest): void {
      if (code !== undefined) problems.inc({ code });
      if (!isLive) durations.observe({ method, route, status }, seconds);
    },
    set(): void {
      const kinds = [...answers].map((res) => STREAMS[mediaType(res)]);
      for (const kind of Object.values(STREAMS)) open.set({ kind }, kinds.filter((one) => one === kind).length);
    },
  };
}

function mediaType(res: Response): string {
  return String(res.headersSent ? res.getHeader('content-type') : '').split(';')[0]!;
}
