/** Options for what an agent records, such as `--only-labelled` and `--service`. */
import type { Command } from 'commander';
import { z } from 'zod';
import { EVENTS } from '../../bpf/schema/index.ts';
import { parseDuration } from '../../daemon/base/duration.ts';
import { Setting } from '../config/setting.ts';
import { createChoiceSchema, integer } from '../config/values.ts';
import { type FilterSettings, type FilterTexts, filterSettings, isPid, readFilterFile } from './settings.ts';

export interface FilterFlags {
  onlyLabelled?: boolean;
  minDuration?: string;
  eventType?: string[];
  service?: string[];
  exceptService?: string[];
  cgroup?: string[];
  exceptCgroup?: string[];
  comm?: string[];
  exceptComm?: string[];
  pid?: string[];
  exceptPid?: string[];
  filterFile?: string;
}

const LISTS = {
  service: ['names', 'services'],
  cgroup: ['paths', 'cgroups and those below them'],
  comm: ['names', 'command names'],
  pid: ['pids', 'processes'],
} as const;

/** The duration is checked but remains a text, as in a filter file. */
const DURATION_TEXT = z
  .string()
  .refine((text) => parseDuration(text) !== undefined, 'It must be a duration such as 500us or 2ms.');
const PID = integer(z.string().refine(isPid, 'It must be the number of a process.'));

export function addFilterOptions(command: Command): Command {
  command
    .addOption(
      new Setting(
        '--only-labelled',
        'record only events that have a transaction, a trace or a labelled service',
      ).reloaded(),
    )
    .addOption(
      new Setting(
        '--min-duration <duration>',
        'record only events of this duration or more, and those that failed: 500us',
      )
        .takes(DURATION_TEXT)
        .reloaded(),
    )
    .addOption(
      new Setting('--event-type <types...>', 'record only events of these types')
        .takes(createChoiceSchema(EVENTS.map(({ name }) => name)))
        .reloaded(),
    );
  for (const [name, [what, text]] of Object.entries(LISTS)) {
    const only = new Setting(`--${name} <${what}...>`, `record only these ${text}`).reloaded();
    const except = new Setting(`--except-${name} <${what}...>`, `do not record these ${text}`).reloaded();
    for (const setting of [only, except]) command.addOption(name === 'pid' ? setting.takes(PID) : setting);
  }
  return command.addOption(
    new Setting(
      '--filter-file <path>',
      'file with these filters in JSON, such as {"services": ["shop"], "min_duration": "1ms"}; read again at SIGHUP',
    ).reloaded(),
  );
}

/** Returns the filter of the flags and the filter file. Throws a ConfigError if a flag or the file is invalid. */
export function parseFilterFlags(flags: FilterFlags): FilterSettings {
  const texts: { [Key in keyof FilterTexts]: FilterTexts[Key] | undefined } = {
    only_labelled: flags.onlyLabelled,
    min_duration: flags.minDuration,
    event_types: flags.eventType,
    services: flags.service,
    except_services: flags.exceptService,
    cgroups: flags.cgroup,
    except_cgroups: flags.exceptCgroup,
    comms: flags.comm,
    except_comms: flags.exceptComm,
    pids: flags.pid,
    except_pids: flags.exceptPid,
  };
  const given = Object.fromEntries(Object.entries(texts).filter(([, value]) => value !== undefined)) as FilterTexts;
  return filterSettings({ ...given, ...(flags.filterFile === undefined ? {} : readFilterFile(flags.filterFile)) });
}
