/** `kreplay fleet retain`: drops the oldest hours, by age and by free disk. */
import type { Command } from 'commander';
import { counted, formatBytes } from '../output/amounts.ts';
import { printJsonLine } from './json_line.ts';
import { type ServerFlags, settingsOf, withOutputOption } from './options.ts';
import { type Retained, retain } from './retain/retain.ts';
import { urlsOf, withFleetConfiguration, withFleetSettings } from './section.ts';

interface RetainFlags extends Omit<ServerFlags, 'url'> {
  url?: string[];
  age?: bigint;
  free: number;
  dryRun: boolean;
}

export const RETAIN_EXAMPLES = [
  'kreplay fleet retain --url https://db1.example:8443 --user kr_admin --password-file ./kr_admin --age 7d --dry-run',
] as const;

/** Adds everything to the command `retain`. */
export function withRetain(command: Command): Command {
  command.description('drop the oldest hours of all tables: by age, and while a disk is short');
  withFleetConfiguration(command, withFleetSettings);
  return withOutputOption(command)
    .option('--dry-run', 'print what would be dropped, and change nothing', false)
    .action(run);
}

async function run(flags: RetainFlags): Promise<void> {
  const { url, age, free, dryRun, output } = flags;
  const all = await retain(settingsOf({ ...flags, url: urlsOf(url) }), {
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
