/** Makes plans of the calls of run_load.c, from an incident in which it made them. */
import { writeFileSync } from 'node:fs';
import { compilePlan, type PlanOptions } from '../../daemon/run/plan/compile.ts';
import { encodePlan } from '../../daemon/run/plan/encode.ts';
import { createIncident, type Incident } from '../../daemon/run/plan/incident.ts';
import { LOAD_COMM, LOAD_FILE, WRITE_BYTES } from './run_load.ts';

export const AS_RECORDED: PlanOptions = { seed: 1n, speed: 1, extraLatencyNs: 0, inject: [], fail: [] };

const FIRST_TID = 4000;
const START_NS = 1_750_000_000_000_000_000n;
/** Gap between the end of a call and the start of the next. */
const GAP_NS = 1000n;

/** Threads take turns; each call takes the next of the durations, cyclically. */
export function writeLoadPlan(path: string, count: number, threads: number, durationsNs: readonly number[]): void {
  writeFileSync(path, encodePlan(compilePlan(incidentOf(count, threads, durationsNs), AS_RECORDED)));
}

function incidentOf(count: number, threads: number, durationsNs: readonly number[]): Incident {
  const incident = createIncident();
  let startNs = START_NS;
  for (let call = 0; call < count; call++) {
    const durationNs = durationsNs[call % durationsNs.length]!;
    incident.addCall({
      ...{ node: 'bench', tid: FIRST_TID + (call % threads), comm: LOAD_COMM, service: 'bench' },
      ...{ op: 'write', path: LOAD_FILE, fileKind: 'character_device', fd: 3, size: WRITE_BYTES },
      ...{ startNs, durationNs },
    });
    startNs += GAP_NS + BigInt(durationNs);
  }
  return incident.finish();
}
