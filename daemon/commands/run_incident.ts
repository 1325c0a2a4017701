/** The incident of a run: from a recording's file, or from a daemon. */
import { openSource } from '../export/source.ts';
import { RunError } from '../run/errors.ts';
import { addBlock } from '../run/plan/from_blocks.ts';
import { addLine } from '../run/plan/from_lines.ts';
import { type Incident, newIncident } from '../run/plan/incident.ts';
import { callDaemon, readLines } from './connection.ts';
import { warnOfLosses } from './coverage_warning.ts';

export interface IncidentPlace {
  transaction: string;
  bundle?: string;
  url: string;
}

/** What can not be read is our failure, not the command's. */
const READ_ERRORS = new Set(['RecordingError', 'ExportError', 'CommandError']);

export async function readIncident(place: IncidentPlace): Promise<Incident> {
  try {
    const incident = place.bundle === undefined ? await fromDaemon(place) : fromFile(place.transaction, place.bundle);
    if (incident.eventCount > 0) return incident;
  } catch (error) {
    if (error instanceof Error && READ_ERRORS.has(error.name)) throw new RunError(error.message);
    throw error;
  }
  const where = place.bundle ?? place.url;
  throw new RunError(`${where} has no events of transaction ${place.transaction}: check the id`);
}

function fromFile(transactionId: string, bundle: string): Incident {
  const source = openSource(bundle);
  try {
    const incident = newIncident();
    for (const block of source.scan({ transactionId })) addBlock(incident, block);
    return incident.finish();
  } finally {
    source.close();
  }
}

async function fromDaemon({ transaction, url }: IncidentPlace): Promise<Incident> {
  const query = new URLSearchParams({ transaction_id: transaction, order: 'asc' });
  const res = await callDaemon(url, { path: `/api/events?${query}`, accept: 'application/x-ndjson' });
  if (res.headers['kreplay-complete'] === 'false') await warnOfLosses(url, query);
  const incident = newIncident();
  for await (const line of readLines(res)) addLine(incident, line);
  return incident.finish();
}
