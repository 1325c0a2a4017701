/** What is recorded in each kernel: programs that count and time their own calls, and tasks whose owners are known. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { TimedCall } from './guest_calls.ts';
import { FAMILIES } from './guest_truth.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const PROGRAMS = join(ROOT, 'build/test');
export const KREPLAY = join(ROOT, 'build/kreplay');

/** Each program of test/kernel that run.ts has to compile. */
export const PROGRAM_NAMES = ['write_family', 'bracketed_writes', 'sync_family', 'lineage'] as const;

export const CALLS = 53;
export const TASKS = 2;
export const REQUESTS = 31;
export const WRITTEN_BACK_BYTES = 64 * 4096;
export const LABELLED_TASKS = ['a', 'b', 'c', 'd'] as const;
export const LABELS = 53;
export const LABELLED_FOLDER = '/tmp/labelled/';
/** In the name of a file that a task without a label writes. */
export const UNLABELLED = 'none-';
/** Three writes and an fsync: what is recorded, and what `kreplay run` holds later. */
export const ORDER = ['dd', 'if=/dev/zero', 'of=/tmp/copy', 'bs=512', 'count=3', 'conv=fsync', 'status=none'];

/** What markers_of_32_bits makes; a program of test/kernel/truth. */
export const FOLDER_OF_32_BITS = '/tmp/of-32-bits/';
export const CALLS_OF_32_BITS = ['write', 'writev', 'pwrite64', 'pwritev', 'pwritev2'] as const;

export interface Workloads {
  writes: TimedCall[];
  syncs: TimedCall[];
  /** Reads that a disk has ended, some of them with an error in a part. Undefined without such a disk. */
  failing: { device: string; reads: number } | undefined;
}

function sh(script: string): string {
  return execFileSync('bash', ['-c', script], { encoding: 'utf8' });
}

/** In a process of its own. */
function labelled(transaction: string, command: string): string {
  return sh(`echo KREPLAY1 txn=${transaction} > /dev/null; exec ${command}`);
}

/** `[thread syscall] before after result` in each line. */
function timedCalls(output: string): TimedCall[] {
  return output
    .trim()
    .split('\n')
    .map((line) => {
      const words = line.split(' ');
      const [before, after, result] = words.slice(-3).map(Number) as [number, number, number];
      const [tid, syscall] = words.slice(0, -3);
      return { before, after, result, ...(tid && { tid: Number(tid) }), ...(syscall && { syscall }) };
    });
}

/** Tasks in each other's way, each with one label after the other, which the name of the file that it writes tells. */
function runLabelledTasks(): void {
  mkdirSync(LABELLED_FOLDER);
  sh(`cd ${LABELLED_FOLDER}
    work() {
      for ((i = 0; i < ${LABELS}; i++)); do
        echo "KREPLAY1 txn=$1-$i" > /dev/null
        echo > $1-$i
        echo "KREPLAY1 end" > /dev/null
        echo > ${UNLABELLED}$1-$i
      done
    }
    for task in ${LABELLED_TASKS.join(' ')}; do work $task & done
    wait`);
}

const SCHEDULER = '/sys/block/vda/queue/scheduler';
/** A kernel for clouds has no disks whose reads fail. */
const SCSI_DEBUG = '/sys/bus/pseudo/drivers/scsi_debug';

/** What may order the disk's requests: `[none] mq-deadline`. */
export function schedulers(): string[] {
  return readFileSync(SCHEDULER, 'utf8').replace(/[[\]]/g, '').trim().split(/\s+/);
}

/** /dev/vda has nothing on it, /dev/vdb an ext4. */
export function runWorkloads(): Workloads {
  labelled('calls', `${PROGRAMS}/write_family ${CALLS} ${TASKS} ${TASKS} /tmp/calls`);
  const writes = timedCalls(labelled('clock', `${PROGRAMS}/bracketed_writes`));
  for (const scheduler of schedulers()) {
    writeFileSync(SCHEDULER, scheduler);
    labelled(`block-${scheduler}`, `dd if=/dev/zero of=/dev/vda bs=4k count=${REQUESTS} oflag=direct status=none`);
  }
  const failing = existsSync(SCSI_DEBUG) ? sh(`/usr/bin/python3 ${join(import.meta.dirname, 'failing_reads.py')}`) : '';
  for (const [name, words] of Object.entries(FAMILIES)) {
    execFileSync(join(PROGRAMS, 'lineage'), [`/tmp/truth-${name}`, ...words]);
  }
  runLabelledTasks();
  mkdirSync(FOLDER_OF_32_BITS);
  labelled('before', `${PROGRAMS}/markers_of_32_bits ${FOLDER_OF_32_BITS}`);
  mkdirSync('/tmp/disk');
  sh('mount /dev/vdb /tmp/disk');
  for (const name of ['back-a', 'back-b']) {
    labelled(name, `dd if=/dev/zero of=/tmp/disk/${name} bs=4k count=64 status=none`);
  }
  sh('sync -f /tmp/disk');
  const syncs = timedCalls(labelled('syncs', `${PROGRAMS}/sync_family /tmp/disk/synced`));
  execFileSync(KREPLAY, ['exec', '--transaction', 'order-1', '--service', 'shop', '--', ...ORDER]);
  const [device, reads] = failing.trim().split(' ');
  return { writes, syncs, failing: device && reads ? { device, reads: Number(reads) } : undefined };
}
