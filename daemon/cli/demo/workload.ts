/** What the demo records: a shop that stores an order, and what somebody has put into the same request. */
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
/** What the script asks for; the last of them is the last thing that it does. */
export const SYNCS = 3;

/** The order and its invoice are small. What is slow is that the disk has to take all of the backup before it is done. */
const SCRIPT = `#!/bin/sh
# Stores an order and its invoice; then somebody thought that a backup could not hurt.
set -eu
cd "\${0%/*}"
mkdir -p ${FILES}
dd if=/dev/zero of=${FILES}/order.json bs=512 count=8 conv=fsync status=none
dd if=/dev/zero of=${FILES}/invoice.pdf bs=16k count=8 conv=fsync status=none
dd if=/dev/zero of=${FILES}/backup.tar bs=1M count=${BACKUP_MIB} conv=fsync status=none
`;

/** By statfs(2): file systems that no disk is below of. */
const IN_MEMORY = new Set([0x01021994, 0x858458f6]);

/** Where the demo can work unless it is told: in many places /tmp is in memory, and nothing waits for a disk there. */
export function folderOnDisk(): string {
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

/** Gives the script. */
export function writeWorkload(folder: string): string {
  const script = join(folder, 'order.sh');
  writeFileSync(script, SCRIPT, { mode: 0o755 });
  return script;
}

/** Takes away the large files, and leaves the script. */
export function clearWorkload(folder: string): void {
  rmSync(join(folder, FILES), { recursive: true, force: true });
}

/** The label is not the script's own: whoever runs it again makes no second order of it. */
const LABELLED = `echo 'KREPLAY1 txn=${TRANSACTION} svc=${SERVICE}' >/dev/null; exec sh "$1"`;

/** Between which moments of the wall clock it ran, nanoseconds since the epoch. */
export async function runWorkload(script: string, ending: AbortSignal): Promise<{ fromNs: bigint; toNs: bigint }> {
  const fromNs = wallClockNs();
  const program = spawn('sh', ['-c', LABELLED, 'sh', script], { stdio: ['ignore', 'ignore', 'inherit'] });
  const [code, signal] = await once(program, 'exit');
  if (ending.aborted) throw new Interrupted();
  if (code !== 0) throw new CommandError(`sh ${script} ended with ${code ?? signal}: the disk may be full, see --data`);
  return { fromNs, toNs: wallClockNs() + 1_000_000n };
}

function wallClockNs(): bigint {
  return BigInt(Date.now()) * 1_000_000n;
}
