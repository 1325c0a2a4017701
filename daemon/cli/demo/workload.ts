/** The workload of the demo: a shop that stores an order and makes an unnecessary backup in the same request. */
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
/** Number of syncs in the script. The last action of the script is a sync. */
export const SYNCS = 3;

/**
 * The script of the workload. The order and the invoice are small, and the backup is slow: its sync returns only when
 * all its data is on the disk.
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

/** Types of in-memory file systems in statfs(2): tmpfs and ramfs. */
const IN_MEMORY = new Set([0x01021994, 0x858458f6]);

/** Returns a default folder that is on a disk. /tmp is often in memory, where no sync waits for a disk. */
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

/** Writes the script into the folder; returns its path. */
export function writeWorkload(folder: string): string {
  const script = join(folder, 'order.sh');
  writeFileSync(script, SCRIPT, { mode: 0o755 });
  return script;
}

/** Removes the large files, but not the script. */
export function clearWorkload(folder: string): void {
  rmSync(join(folder, FILES), { recursive: true, force: true });
}

/**
 * Shell command that labels itself and then runs the script. The script itself has no label, so running it again by
 * hand adds nothing to the transaction.
 */
const LABELLED = `echo 'KREPLAY1 txn=${TRANSACTION} svc=${SERVICE}' >/dev/null; exec sh "$1"`;

/** Runs the script. Returns the wall-clock times of its start and its end, in nanoseconds since the epoch. */
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
