/** `--retain-bytes` and `--retain-age`: how much the node's recording keeps. */
import { statfsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { z } from 'zod';
import { parseDuration } from '../daemon/base/duration.ts';
import { parseBytes } from './config/bytes.ts';
import { Setting } from './config/setting.ts';
import { createTextSchema } from './config/values.ts';
import { RETAIN_BYTES_MIN, type RetentionLimits } from './recording/retain/retention.ts';

export interface RetentionFlags {
  retainBytes?: number;
  retainAge?: bigint;
  retainUnshipped?: string;
}

const RETAIN_BYTES_MAX_DEFAULT = 10e9;
const DISK_SHARE_DEFAULT = 0.1;

const RETAIN_BYTES = createTextSchema(parseBytes, 'It must be a size, such as 500MB, 20GiB or a number of bytes.').pipe(
  z.number().min(RETAIN_BYTES_MIN, `It must be at least ${RETAIN_BYTES_MIN / 2 ** 20}MiB.`),
);

const AGE = createTextSchema(
  (text) => parseDuration(text) || undefined,
  'It must be a duration with its unit, such as 12h or 7d.',
);

export function addRetentionOptions(command: Command): Command {
  return command
    .addOption(
      new Setting(
        '--retain-bytes <size>',
        'maximum size of the recording, such as 20GiB (default: 10GB, at most a tenth of the disk)',
      ).takes(RETAIN_BYTES),
    )
    .addOption(
      new Setting('--retain-age <duration>', 'maximum age of the events, such as 12h or 7d (default: no limit)').takes(
        AGE,
      ),
    )
    .addOption(
      new Setting(
        '--retain-unshipped <file>',
        'position.json of `kreplay ship`: what it has not shipped is never too old',
      ),
    );
}

/** Returns the limits that the flags set; without `retainBytes`, the size depends on the disk that `folder` is on. */
export function chooseRetentionLimits(
  { retainBytes, retainAge, retainUnshipped }: RetentionFlags,
  folder: string,
): RetentionLimits & { bytes: number } {
  return {
    bytes: retainBytes ?? computeDefaultBytes(folder),
    ...(retainAge !== undefined && { ageNs: retainAge }),
    ...(retainUnshipped !== undefined && { unshipped: resolve(retainUnshipped) }),
  };
}

function computeDefaultBytes(folder: string): number {
  const { blocks, bsize } = statfsSync(folder);
  const share = Math.floor(blocks * bsize * DISK_SHARE_DEFAULT);
  return Math.max(RETAIN_BYTES_MIN, Math.min(RETAIN_BYTES_MAX_DEFAULT, share));
}
