/**
 * Finds the processes that publish OpenTelemetry's contexts. No event shows that a process starts to publish, so each
 * process is checked several times after its program was first seen, a few processes at a time. Processes that publish
 * are checked periodically.
 */

import { type ProcessContext, readProcessContext } from './otel/process_context.ts';
import { createThreadLocalResolver, type ThreadLocal } from './otel/thread_local.ts';
import { isSameProgram, isStillRunning, type RunningProgram } from './proc_program.ts';
import { createReferenceTable } from './reference_table.ts';
import { cleanName } from './service_name/clean_name.ts';

const PROCESSES_MAX = 8192;
/** Delays before the first, second and third check. A program first loads its libraries and starts its runtime. */
const CHECK_AFTER_MS = [1000, 5000, 30_000];
/** Interval between checks of a process that publishes: later, it may publish more attributes or another name. */
const CHECK_AGAIN_MS = 60_000;
/** Maximum number of checks per call. A check takes 0.2 ms, or 100 ms if the process is hostile. */
const CHECKS_A_CALL = 4;
const CALL_MS_MAX = 5;

export interface Publishers {
  /** Schedules the checks of a process that runs `program`. */
  consider(program: RunningProgram): void;
  /** Checks some of the processes that are due; the others remain due. Returns when the next check is due. */
  checkDue(nowMs: number): number;
  /** Returns the names of the attributes in the records of the process's threads, by index. */
  getThreadKeys(pid: number): readonly string[];
  /** Returns the service name that the process publishes while it runs `program`. */
  findPublishedService(program: RunningProgram): string | undefined;
}

export interface PublishersOptions {
  /** Makes the kernel side read the records of the process's threads. */
  watch(program: RunningProgram, place: ThreadLocal): void;
  onService(program: RunningProgram, service: string): void;
}

interface Seen {
  program: RunningProgram;
  checks: number;
  dueMs: number;
  context: ProcessContext | undefined;
  isWatched: boolean;
}

export function createPublishers({ watch, onService }: PublishersOptions): Publishers {
  const seen = createReferenceTable<Seen>(PROCESSES_MAX);
  const waiting = new Set<number>();
  const resolver = createThreadLocalResolver();

  function check(pid: number, process: Seen, nowMs: number): void {
    process.checks++;
    const { value: context, reason } = readProcessContext(pid);
    // If the process has executed another program since, that program is considered and checked separately.
    if (reason === 'gone' || !isStillRunning(process.program)) {
      waiting.delete(pid);
      return;
    }
    if (context) take(pid, process, context);
    const after = CHECK_AFTER_MS[process.checks];
    if (process.context) process.dueMs = nowMs + CHECK_AGAIN_MS;
    else if (after !== undefined) process.dueMs = nowMs + after;
    else waiting.delete(pid);
  }

  function take(pid: number, process: Seen, context: ProcessContext): void {
    const before = findServiceName(process.context);
    process.context = context;
    const service = findServiceName(context);
    if (service !== undefined && service !== before) onService(process.program, service);
    if (process.isWatched || !context.threadKeys) return;
    const place = resolver.resolve(pid).value;
    if (!place) return;
    watch(process.program, place);
    process.isWatched = true;
  }

  return {
    consider(program) {
      const { pid } = program;
      const before = seen.get(pid);
      if ((before && isSameProgram(before.program, program)) || waiting.size >= PROCESSES_MAX) return;
      const dueMs = performance.now() + CHECK_AFTER_MS[0]!;
      seen.set(pid, { program, checks: 0, dueMs, context: undefined, isWatched: false });
      // Deletes the pid first, so that a pid that is already waiting moves to the end.
      waiting.delete(pid);
      waiting.add(pid);
    },
    checkDue(nowMs) {
      let checks = 0;
      let nextMs = Number.POSITIVE_INFINITY;
      for (const pid of waiting) {
        const process = seen.get(pid);
        if (!process) waiting.delete(pid);
        else if (process.dueMs > nowMs) nextMs = Math.min(nextMs, process.dueMs);
        else {
          if (checks === CHECKS_A_CALL || performance.now() - nowMs > CALL_MS_MAX) return nowMs;
          checks++;
          check(pid, process, nowMs);
          if (waiting.has(pid)) nextMs = Math.min(nextMs, process.dueMs);
        }
      }
      return nextMs;
    },
    getThreadKeys: (pid) => seen.get(pid)?.context?.threadKeys ?? [],
    findPublishedService(program) {
      const process = seen.get(program.pid);
      return process && isSameProgram(process.program, program) ? findServiceName(process.context) : undefined;
    },
  };
}

function findServiceName(context: ProcessContext | undefined): string | undefined {
  const name = context?.resource.get('service.name');
  return typeof name === 'string' ? cleanName(name.trim()) || undefined : undefined;
}
