/**
 * `node plan_process.ts RECORDING TRANSACTION PLAN`: makes a plan as `kreplay run` does, in a process of its own, where
 * none of that code is compiled yet. Prints one line of JSON.
 */
import { writeFileSync } from 'node:fs';
import { openSource } from '../../daemon/export/source.ts';
import { compilePlan } from '../../daemon/run/plan/compile.ts';
import { encodePlan } from '../../daemon/run/plan/encode.ts';
import { addBlock } from '../../daemon/run/plan/from_blocks.ts';
import { createIncident } from '../../daemon/run/plan/incident.ts';
import { AS_RECORDED } from './planned_load.ts';

export interface PlanCost {
  events: number;
  bytes: number;
  /** Time from the recording to columns. */
  read_ns: number;
  /** Time from columns to a plan. */
  compile_ns: number;
  /** Time from a plan to the bytes of its file. */
  encode_ns: number;
}

const elapsedNs = (fromMs: number) => Math.round((performance.now() - fromMs) * 1e6);

function main(recording: string, transactionId: string, planPath: string): void {
  const readMs = performance.now();
  const source = openSource(recording);
  const builder = createIncident();
  for (const block of source.scan({ transactionId })) addBlock(builder, block);
  source.close();
  const incident = builder.finish();
  const read_ns = elapsedNs(readMs);
  const compileMs = performance.now();
  const plan = compilePlan(incident, AS_RECORDED);
  const compile_ns = elapsedNs(compileMs);
  const encodeMs = performance.now();
  const bytes = encodePlan(plan);
  const encode_ns = elapsedNs(encodeMs);
  writeFileSync(planPath, bytes);
  const cost: PlanCost = { events: plan.eventCount, bytes: bytes.length, read_ns, compile_ns, encode_ns };
  process.stdout.write(`${JSON.stringify(cost)}\n`);
}

const [recording, transactionId, planPath] = process.argv.slice(2) as [string, string, string];
main(recording, transactionId, planPath);
