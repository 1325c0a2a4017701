/** The workloads in each kernel: programs that count and time their own calls, and tasks whose owners are known. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { TimedCall } from './guest_calls.ts';
import { FAMILIES } from './guest_truth.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const PROGRAMS = join(ROOT, 'build/test');
export const KREPLAY = join(ROOT, 'build/kreplay');

/** The programs of test/kernel that run.ts has to compile. */
export const PROGRAM_NAMES = ['write_family', 'bracketed_writes', 'sync_family', 'lineage'] as const;

export const CALLS = 53;
export const TASKS = 2;
export const REQUESTS = 31;
export const WRITTEN_BACK_BYTES = 64 * 4096;
export const LABELLED_TASKS = ['a', 'b', 'c', 'd'] as const;
export const LABELS = 53;
export const LABELLED_FOLDER = '/tmp/labelled/';
/** Prefix of the names of files that are written without a label. */
export const UNLABELLED = 'none-';
/** Makes three writes and an fsync, which are recorded, and which `kreplay run` delays later. */
export const ORDER = ['dd', 'if=/dev/zero', 'of=/tmp/copy', 'bs=512', 'count=3', 'conv=fsync', 'status=none'];

/** The folder and the calls of markers_of_32_bits, a program of test/kernel/truth. */
export const FOLDER_OF_32_BITS = '/tmp/of-32-bits/';
export const CALLS_OF_32_BITS = ['write', 'writev', 'pwrite64', 'pwritev', 'pwritev2'] as const;

export interface Workloads {
  writes: TimedCall[];
  syncs: TimedCall[];
  /** Reads that a disk has ended, some of them with an error in a part. Undefined if there is no such disk. */
  failing: { device: string; reads: number } | undefined;
}

function sh(script: string): string {
  return execFileSync('bash', ['-c', script], { encoding: 'utf8' });
}

/** Runs the command as its own process, under a label. */
function labelled(transaction: string, command: string): string {
  return sh(`echo KREPLAY1 txn=${transaction} > /dev/null; exec ${command}`);
}

/** Parses lines of `[thread syscall] before after result`. */
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

/** Runs concurrent tasks, each under one label after another; each file that they write has its label in its name. */
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

/** The I/O schedulers that the disk can have, listed as `[none] mq-deadline`. */
export function schedulers(): string[] {
  return readFileSync(SCHEDULER, 'utf8').replace(/[[\]]/g, '').trim().split(/\s+/);
}

/** Needs an empty disk at /dev/vda, and an ext4 at /dev/vdb. */
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
