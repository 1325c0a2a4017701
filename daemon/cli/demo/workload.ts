/** The workload that the demo records: a shop that stores an order, with an unnecessary backup in the same request. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Interrupted } from '../../export/errors.ts';
import { CommandError } from '../client/command_error.ts';

export const TRANSACTION = 'order-1';
export const SERVICE = 'shop';
const BACKUP_MIB = 128;
const FILES = 'files';
/** Number of syncs in the script, whose last action is a sync. */
export const SYNCS = 3;

/**
 * The order and its invoice are small. The slow part is the backup, which must reach the disk completely before its
 * sync returns.
 */
const SCRIPT = `#!/bin/sh
# Stores an order and its invoice, and then makes a backup that slows both down.
set -eu
cd "\${0%/*}"
mkdir -p ${FILES}
dd if=/dev/zero of=${FILES}/order.json bs=512 count=8 conv=fsync status=none
dd if=/dev/zero of=${FILES}/invoice.pdf bs=16k count=8 conv=fsync status=none
dd if=/dev/zero of=${FILES}/backup.tar bs=1M count=${BACKUP_MIB} conv=fsync status=none
`;

/** File system types in statfs(2) that are not backed by a disk: tmpfs and ramfs. */
const IN_MEMORY = new Set([0x01021994, 0x858458f6]);

/** Returns the demo's default folder. /tmp is often in memory, where no write waits for a disk. */
export function findDiskFolder(): string {
  const found = ['/var/tmp', tmpdir(), process.cwd()].find((folder) => isWritable(folder) && isOnDisk(folder));
  if (found === undefined) throw new CommandError('no folder that is on a disk can be written: name one with --data');
  return found;
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function isOnDisk(folder: string): boolean {
  return !IN_MEMORY.has(statfsSync(folder).type);
}

/** Returns the path of the script. */
export function writeWorkload(folder: string): string {
  const script = join(folder, 'order.sh');
  writeFileSync(script, SCRIPT, { mode: 0o755 });
  return script;
}

/** Removes the large files, but not the script. */
export function clearWorkload(folder: string): void {
  rmSync(join(folder, FILES), { recursive: true, force: true });
}

/** The label is not part of the script, so running the script again does not add to the order's transaction. */
const LABELLED = `echo 'KREPLAY1 txn=${TRANSACTION} svc=${SERVICE}' >/dev/null; exec sh "$1"`;

/** Returns the wall-clock times of the script's start and end, in nanoseconds since the epoch. */
export async function runWorkload(script: string, ending: AbortSignal): Promise<{ fromNs: bigint; toNs: bigint }> {
  const fromNs = readWallClockNs();
  const program = spawn('sh', ['-c', LABELLED, 'sh', script], { stdio: ['ignore', 'ignore', 'inherit'] });
  const [code, signal] = await once(program, 'exit');
  if (ending.aborted) throw new Interrupted();
  if (code !== 0) throw new CommandError(`sh ${script} ended with ${code ?? signal}: the disk may be full, see --data`);
  return { fromNs, toNs: readWallClockNs() + 1_000_000n };
}

function readWallClockNs(): bigint {
  return BigInt(Date.now()) * 1_000_000n;
}
