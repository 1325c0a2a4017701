/** Reads the incident of a run from a recording's file or from a daemon. */
import { openSource } from '../../export/source.ts';
import { RunError } from '../../run/errors.ts';
import { addBlock } from '../../run/plan/from_blocks.ts';
import { addLine } from '../../run/plan/from_lines.ts';
import { type Incident, newIncident } from '../../run/plan/incident.ts';
import { newRecordedErrors, type RecordedErrors } from '../../run/plan/recorded_errors.ts';
import { callDaemon, readLines } from '../client/connection.ts';
import { warnOfLosses } from '../client/coverage_warning.ts';

export interface IncidentPlace {
  transaction: string;
  bundle?: string;
  url: string;
}

export interface ReadIncident {
  incident: Incident;
  errors: RecordedErrors;
}

export async function readIncident(place: IncidentPlace): Promise<ReadIncident> {
  const { transaction, bundle } = place;
  const read = bundle === undefined ? await fromDaemon(place) : fromFile(transaction, bundle);
  if (read.incident.eventCount > 0) return read;
  const where = place.bundle ?? place.url;
  throw new RunError(`${where} has no events of transaction ${place.transaction}: check the id`);
}

function fromFile(transactionId: string, bundle: string): ReadIncident {
  const source = openSource(bundle);
  try {
    const incident = newIncident();
    const errors = newRecordedErrors();
    for (const block of source.scan({ transactionId })) {
      addBlock(incident, block);
      errors.addBlock(block);
    }
    return { incident: incident.finish(), errors };
  } finally {
    source.close();
  }
}

async function fromDaemon({ transaction, url }: IncidentPlace): Promise<ReadIncident> {
  const query = new URLSearchParams({ transaction_id: transaction, order: 'asc' });
  const res = await callDaemon(url, { path: `/api/events?${query}`, accept: 'application/x-ndjson' });
  if (res.headers['kreplay-complete'] === 'false') await warnOfLosses(url, query);
  const incident = newIncident();
  const errors = newRecordedErrors();
  for await (const line of readLines(res)) {
    addLine(incident, line);
    errors.addLine(line);
  }
  return { incident: incident.finish(), errors };
}
