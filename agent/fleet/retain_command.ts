/** `kreplay fleet retain`: drops the oldest hours, by age and by free disk. */
import type { Command } from 'commander';
import { withConfigOption, withConfiguration } from '../config/configuration.ts';
import { withServerSettings } from '../config/server_settings.ts';
import { declaredOf, Setting } from '../config/setting.ts';
import { DURATION, textAs } from '../config/values.ts';
import { counted, formatBytes } from '../output/amounts.ts';
import { UserError } from '../process/errors.ts';
import { printJsonLine } from './json_line.ts';
import { type ServerFlags, settingsOf, withOutputOption } from './options.ts';
import { type Retained, retain } from './retain/retain.ts';

interface RetainFlags extends Omit<ServerFlags, 'url'> {
  url?: string[];
  age?: bigint;
  free: number;
  dryRun: boolean;
}

const AGE_NS_MIN = 3_600_000_000_000n;
const AGE = DURATION.refine((ns) => ns >= AGE_NS_MIN, 'must be at least 1h');

const FREE = textAs((text) => {
  const percent = /^(\d{1,2})%$/.exec(text)?.[1];
  return percent === undefined ? undefined : Number(percent);
}, 'must be a percentage of the disk, such as 15%, or 0% to look at the age only');

export const RETAIN_EXAMPLES = [
  'kreplay fleet retain --url https://db1.example:8443 --user kr_admin --password-file ./kr_admin --age 7d --dry-run',
] as const;

/** Used by `kreplay config`. */
export const FLEET_SECTION = {
  declare: withRetainSettings,
  check: () => undefined,
};

function withRetainSettings(command: Command): Command {
  return withServerSettings(command, '', 'servers of the fleet, at least one of each shard')
    .addOption(new Setting('--age <duration>', 'drop what is older, such as 7d (default: no limit)').takes(AGE))
    .addOption(
      new Setting('--free <percent>', 'drop the oldest hours while less of a disk is free (not on 18.16)')
        .takes(FREE)
        .defaultText('15%'),
    );
}

/** Adds everything to the command `retain`. */
export function withRetain(command: Command): Command {
  command.description('drop the oldest hours of all tables: by age, and while a disk is short');
  const configuration = withConfiguration(command);
  withConfigOption(withRetainSettings(command));
  configuration.declare('fleet', declaredOf(command));
  return withOutputOption(command)
    .option('--dry-run', 'print what would be dropped, and change nothing', false)
    .action(run);
}

async function run(flags: RetainFlags): Promise<void> {
  const { url, age, free, dryRun, output } = flags;
  if (!url || url.length === 0)
    throw new UserError('there is no server: pass --url, or set `url` in the section [fleet] of kreplay.toml');
  const all = await retain(settingsOf({ ...flags, url }), {
    ageNs: age,
    freePercent: free === 0 ? undefined : free,
    isDryRun: dryRun,
    nowNs: BigInt(Date.now()) * 1_000_000n,
    note: (message) => process.stderr.write(`kreplay fleet retain: ${message}\n`),
  });
  for (const one of all) {
    if (output === 'json') printJsonLine(asJson(one, dryRun));
    else process.stdout.write(asText(one, dryRun));
  }
}

function asJson({ urls, oldestNs, hours, events, bytes, pins }: Retained, isDryRun: boolean) {
  return { urls, dry_run: isDryRun, oldest_ns: oldestNs, dropped: { hours, events, bytes }, pins_copied: pins };
}

function asText({ urls, oldestNs, hours, events, bytes, pins }: Retained, isDryRun: boolean): string {
  const what = `${counted(hours, 'hour')}: ${counted(events, 'event')}, ${formatBytes(Number(bytes))}`;
  const oldest = oldestNs > 0n ? `; kept from ${new Date(Number(oldestNs / 1_000_000n)).toISOString()} on` : '';
  const copied = pins > 0 ? `; ${counted(pins, 'pin')} completed before` : '';
  return `${urls.join(', ')}: ${isDryRun ? 'would drop' : 'dropped'} ${what}${copied}${oldest}\n`;
}
