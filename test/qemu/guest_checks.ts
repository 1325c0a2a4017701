/**
 * Checks that the daemon reports of the workloads what they did. Each check returns what it saw, or throws. None of
 * them is about how long anything takes.
 */
import { missingCalls } from './guest_calls.ts';
import type { Event, Query } from './guest_query.ts';
import { ownersOf } from './guest_truth.ts';
import {
  CALLS,
  CALLS_OF_32_BITS,
  FOLDER_OF_32_BITS,
  LABELLED_FOLDER,
  LABELLED_TASKS,
  LABELS,
  REQUESTS,
  schedulers,
  TASKS,
  UNLABELLED,
  type Workloads,
  WRITTEN_BACK_BYTES,
} from './guest_workloads.ts';

export function same(what: string, seen: unknown, wanted: unknown): void {
  const [a, b] = [JSON.stringify(seen), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what}: ${a}, not ${b}`);
}

/** Calls that have no event: from Linux 7.0 on there may be some, and then the recording says so. */
export interface Missing {
  /** A note for a line of text: empty, or how many are missing. */
  noted(count: number): string;
  /** @throws Error if more are missing than the recording says */
  compare(query: Query): Promise<string>;
}

/** Causes of losses when one of our programs keeps another one from running. */
const BUSY = ['program_busy', 'end_missed'];

/** `mayBe`: whether tasks may be preempted in a program on this kernel. */
export function missingWhere(mayBe: boolean): Missing {
  let missing = 0;
  return {
    noted(count) {
      if (count > 0 && !mayBe) throw new Error(`${count} have no event`);
      missing += count;
      return count > 0 ? `, but ${count}` : '';
    },
    async compare(query) {
      // These are the losses of the whole recording, not of one transaction's time.
      const { lost, losses } = (await query('event_type=sys_write')).coverage;
      const busy = losses.filter(({ cause }) => BUSY.includes(cause)).reduce((sum, loss) => sum + loss.lost, 0);
      same('lost for other reasons', lost - busy, 0);
      if (!mayBe) same('lost', lost, 0);
      if (missing > busy) throw new Error(`${missing} events are missing, and ${busy} are told of`);
      return lost > 0 ? `${missing} events are missing, and ${lost} runs of programs told as lost` : 'none';
    },
  };
}

const FAMILY = { write: 7, pwrite64: 11, writev: 3, pwritev: 66, pwritev2: 6 };

export async function checkWrites(query: Query, missing: Missing): Promise<string> {
  const { events } = await query('transaction_id=calls&event_type=sys_write&comm=write_family');
  const counted: Record<string, number> = {};
  for (const { syscall, result, bytes_requested } of events) {
    same(`bytes of a ${syscall}`, [result, bytes_requested], Array(2).fill(FAMILY[syscall as keyof typeof FAMILY]));
    counted[syscall!] = (counted[syscall!] ?? 0) + 1;
  }
  const each = CALLS * TASKS * TASKS;
  const fewer = Object.keys(FAMILY).map((name) => each - (counted[name] ?? 0));
  if (fewer.some((count) => count < 0)) throw new Error(`more than ${each}: ${JSON.stringify(counted)}`);
  const note = missing.noted(fewer.reduce((sum, count) => sum + count, 0));
  return `${each * fewer.length} calls of ${fewer.length} kinds, an event each${note}`;
}

const PIPE_BYTES = 8192;

export async function checkTimes(query: Query, { writes }: Workloads, missing: Missing): Promise<string> {
  const { events } = await query('transaction_id=clock&event_type=sys_write');
  const ofPipe = events.filter(
    ({ file_kind, bytes_requested }) => file_kind === 'pipe' && bytes_requested === PIPE_BYTES,
  );
  const note = missing.noted(missingCalls(ofPipe, writes));
  return `${writes.length} writes, each within the time that the program measured${note}`;
}

export async function checkSyncs(query: Query, { syncs }: Workloads, missing: Missing): Promise<string> {
  const { events } = await query('transaction_id=syncs&event_type=sys_sync');
  const note = missing.noted(missingCalls(events, syncs));
  const kinds = new Set(syncs.map(({ syscall }) => syscall)).size;
  return `${syncs.length} calls of ${kinds} kinds, an event each, with its result and within its time${note}`;
}

/** A request's completion may come while a program handles another one: then it is not recorded. */
export async function checkRequests(query: Query, missing: Missing): Promise<string> {
  const notes: string[] = [];
  for (const scheduler of schedulers()) {
    const { events } = await query(`transaction_id=block-${scheduler}&event_type=block_io`);
    const ofDisk = events.filter(({ device, operation }) => device === 'vda' && operation === 'write');
    const seen = ofDisk.map(({ bytes, result }) => [bytes, result]);
    same('requests', seen, Array(seen.length).fill([4096, 4096]));
    if (seen.length > REQUESTS) throw new Error(`${seen.length} requests of ${REQUESTS} writes`);
    notes.push(`${scheduler}${missing.noted(REQUESTS - seen.length)}`);
  }
  return `${REQUESTS} direct writes, a request each, by scheduler: ${notes.join('; ')}`;
}

/** ENODATA of include/uapi/asm-generic/errno.h: the error of a block that cannot be read. */
const ENODATA = -61;
/** failing_reads.py reads these bytes at once; the first of their two bios cannot be read. */
const [FAILING_SECTOR, FAILING_BYTES] = [4656, 36_864];

export async function checkFailing(query: Query, { failing }: Workloads, missing: Missing): Promise<string> {
  if (!failing) return 'no disk whose reads fail';
  const { events } = await query('event_type=block_io');
  const reads = events.filter(({ device, operation }) => device === failing.device && operation === 'read');
  const merged = reads.filter(({ bytes }) => bytes === FAILING_BYTES).map(({ sector, result }) => [sector, result]);
  same('reads that fail in parts', merged, [[FAILING_SECTOR, ENODATA]]);
  return `${failing.reads} reads, an event each${missing.noted(failing.reads - reads.length)}`;
}

export async function checkOwners(query: Query, missing: Missing): Promise<string> {
  const owned = ownersOf((await query('event_type=sys_write')).events);
  if (owned.wrong.length > 0) throw new Error(owned.wrong.join('; '));
  return `${owned.tasks} tasks, each with its owner or none${missing.noted(owned.missing)}`;
}

/** A label that is set or taken away is missed if the kernel skips both program runs of the call. */
const WRONG_SHARE_MAX = 0.005;

export async function checkLabels(query: Query, missing: Missing): Promise<string> {
  const { events } = await query('event_type=sys_write&comm=bash');
  const labelled = events.filter(({ file }) => file?.startsWith(LABELLED_FOLDER));
  const counts = { right: 0, none: 0, wrong: 0 };
  for (const { file, transaction_id: seen } of labelled) {
    const name = file!.slice(LABELLED_FOLDER.length);
    const owner = name.startsWith(UNLABELLED) ? null : name;
    counts[seen === owner ? 'right' : seen === null ? 'none' : 'wrong']++;
  }
  const writes = LABELLED_TASKS.length * LABELS * 2;
  const note = missing.noted(writes - labelled.length);
  const { right, ...others } = counts;
  if (note === '') same('labels that are not right', others, { none: 0, wrong: 0 });
  if (others.wrong > writes * WRONG_SHARE_MAX) throw new Error(`${others.wrong} of ${writes} have another's label`);
  return `${writes} writes between labels: ${right} right, ${others.wrong} wrong, ${others.none} without${note}`;
}

/** Checks labels that 32-bit calls set and remove: each file is named after its owner, or after the label that ended. */
export async function checkLabelsOf32Bits(query: Query, missing: Missing): Promise<string> {
  const { events } = await query('event_type=sys_write&comm=sh');
  const owners: [string, string | null][] = CALLS_OF_32_BITS.flatMap((call) => [
    [call, call],
    [`after-${call}`, null],
  ]);
  const seen = owners.map(([name]) => events.filter(({ file }) => file === FOLDER_OF_32_BITS + name));
  const note = missing.noted(seen.filter((of) => of.length === 0).length);
  const wrong = owners.filter(([, owner], i) => seen[i]!.some(({ transaction_id }) => transaction_id !== owner));
  same(
    'wrong owners',
    wrong.map(([name]) => name),
    [],
  );
  return `${owners.length} writes after 32-bit calls${note}`;
}

export async function checkWriteBack(query: Query): Promise<string> {
  for (const transaction of ['back-a', 'back-b']) {
    const { events } = await query(`transaction_id=${transaction}&event_type=block_io`);
    const bytes = events.filter(({ device }) => device === 'vdb').reduce((sum, event) => sum + event.bytes!, 0);
    if (bytes < WRITTEN_BACK_BYTES) {
      throw new Error(`${transaction} wrote ${WRITTEN_BACK_BYTES} bytes, and is told of ${bytes}`);
    }
  }
  return 'two files, each with the bytes that the kernel wrote back later';
}

export async function checkEndToEnd(query: Query, missing: Missing): Promise<string> {
  const events = (await query('transaction_id=order-1')).events.filter(({ comm }) => comm === 'dd');
  const seen = (type: string) => events.filter(({ event_type }) => event_type === type);
  const described = ({ result, service_name, syscall }: Event) => [result, service_name, syscall];
  const [writes, syncs] = [seen('sys_write').map(described), seen('sys_sync').map(described)];
  same('writes', writes, Array(writes.length).fill([512, 'shop', 'write']));
  same('syncs', syncs, Array(syncs.length).fill([0, 'shop', 'fsync']));
  return `kreplay exec, agent, daemon${missing.noted(3 - writes.length + 1 - syncs.length)}`;
}
