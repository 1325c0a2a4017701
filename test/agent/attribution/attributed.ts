/** Runs records through decoder and resolver with real tables, and gives access to the resulting columns. */

import { type ContextDefinition, createContexts } from '../../../agent/attribution/contexts.ts';
import { createFiles } from '../../../agent/attribution/files.ts';
import type { ReferenceTables } from '../../../agent/attribution/fill.ts';
import { createProcesses, type ProcessDefinition } from '../../../agent/attribution/processes.ts';
import { createPrograms } from '../../../agent/attribution/programs.ts';
import { createResolver } from '../../../agent/attribution/resolve.ts';
import { createDecoder, type DecodedBlock } from '../../../bpf/schema/decoder.ts';
import { CONTEXT_SCOPES } from '../../../bpf/schema/definitions.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../../bpf/schema/owner.ts';
import { framed } from '../../bpf/schema/records.ts';
import { createNames } from './names.ts';

export function contextDefinition(fields: Partial<ContextDefinition>): ContextDefinition {
  return {
    context_id: 256,
    time_ns: 0,
    pid: 10,
    uid: 0,
    scope: CONTEXT_SCOPES.SCOPE_THREAD,
    outer_context_id: 0,
    share: 0,
    ...fields,
  };
}

export function processDefinition(fields: Partial<ProcessDefinition>): ProcessDefinition {
  const [ids, process] = [
    { process_id: 256, program_id: 0 },
    { start_ns: 0, cgroup_id: 0, pid: 10, uid: 0, share: 0 },
  ];
  return { ...ids, ...process, kernel_thread: 0, exec_id: 1, stack_start: 0x7ffd_0000_0010, ...fields };
}

export type Attribution = ReturnType<typeof createAttribution>;

export function createAttribution(wallOffsetNs = 0n, wantsDataOwner: ReferenceTables['wantsDataOwner'] = () => true) {
  const names = createNames();
  const transactions = createNames();
  const oldestIds = { name: 1, context: 1 };
  const contexts = createContexts({
    oldestIds,
    internName: names.intern,
    intern: ({ transactionId, traceId, spanId }) =>
      transactions.intern([transactionId ?? traceId ?? '', ...(spanId ? [spanId] : [])].join('/')),
    getThreadKeys: () => ['transaction.id'],
    trustsService: (uid) => uid === 0,
  });
  const programs = createPrograms();
  const processes = createProcesses({
    programs,
    readProcessProgram: () => undefined,
    cgroups: { define: () => undefined, findPath: () => undefined, readProcessPath: () => undefined },
    intern: names.intern,
    oldestIds,
    isOwn: ({ pid }) => pid === OWN_PID,
  });
  const files = createFiles(names.intern);
  const decoder = createDecoder();
  const wallOffset = new Uint32Array(BigInt64Array.of(wallOffsetNs).buffer);
  const tables = {
    contexts,
    processes,
    files,
    internCgroupService: (cgroupId: number) => (cgroupId === CHARGED_CGROUP ? names.intern('charged') : 0),
    wantsDataOwner,
    internName: names.intern,
    oldestIds,
    wallOffset,
  };
  const resolverOf = (decoded: DecodedBlock) => createResolver(decoded, tables);
  const resolver = resolverOf(decoder.decoded);
  const { block } = decoder.decoded;

  return {
    contexts,
    processes,
    files,
    resolver,
    resolverOf,
    marker: (context_id: number, body: string) =>
      contexts.define(contextDefinition({ context_id }), `KREPLAY1 ${body}\n`),
    traceParent: (context_id: number, value: string) =>
      contexts.define(contextDefinition({ context_id, scope: CONTEXT_SCOPES.SCOPE_ENVIRONMENT }), value),
    program(process_id: number, executable: string, pid = 10): void {
      programs.define({ program_id: process_id, flags: 0, executable }, '', '');
      processes.define(processDefinition({ process_id, program_id: process_id, pid }));
    },
    /** Decodes and resolves one block. */
    resolve(records: readonly Uint8Array[]): void {
      const frames = framed(records);
      decoder.decode(frames, 0, frames.length, () => true);
      resolver.resolve(new Uint32Array(frames.buffer));
    },
    number: (column: string, row = 0) => block.columns.get(column)![row]!,
    name: (column: string, row = 0) => names.text(Number(block.columns.get(column)![row])),
    transaction: (column: string, row = 0) => transactions.text(Number(block.columns.get(column)![row])),
    /** `transaction source quality service` of a row. */
    owner(row = 0): string {
      const source = ATTRIBUTION_SOURCES[Number(this.number('context_source', row))];
      const quality = ATTRIBUTION_QUALITIES[Number(this.number('context_quality', row))];
      return [this.transaction('context', row) ?? '-', source, quality, this.name('service', row)].join(' ');
    },
  };
}

/** Pid of the recorder itself. */
export const OWN_PID = 4242;

/** Data written back for this cgroup is attributed to the service `charged`. */
export const CHARGED_CGROUP = 88;
