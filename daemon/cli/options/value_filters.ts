/** Options that select or exclude events by the values of their fields. The API has the same parameters. */
import type { Command } from 'commander';
import { collectLists } from './option_values.ts';

const VALUES = {
  operation: 'these block operations',
  syscall: 'these system calls',
  device: 'these disks',
  file: 'these files: path, path*, folder/',
  error: 'these errors, as ENOSPC',
} as const;

const EXCLUDED = {
  service: 'these services',
  node: 'these hosts',
  type: 'these types',
  ...VALUES,
  comm: 'these command names',
} as const;

/** Query parameters of a request. A parameter with several values is repeated in the query. */
export type Parameters = Readonly<Record<string, string | readonly string[] | undefined>>;

type Selected = { [Name in keyof typeof VALUES]?: string[] };
type Excluded = { [Name in keyof typeof EXCLUDED as `exclude${Capitalize<Name>}`]?: string[] };
export type ValueFilters = Selected & Excluded;

/**
 * Adds the options. `what` says what the command lists: events, or transactions that have events with the selected
 * values. Each option's help is one line, so that the whole help fits on a screen.
 */
export function addValueFilters(command: Command, what: 'events' | 'transactions'): Command {
  const having = what === 'events' ? 'only' : 'with';
  for (const [name, values] of Object.entries(VALUES))
    command.option(`--${name} <names>`, `${having} ${values}; a list`, collectLists);
  for (const [name, values] of Object.entries(EXCLUDED))
    command.option(`--exclude-${name} <names>`, `without ${values}; a list`, collectLists);
  return command;
}

export function buildValueParameters(filters: ValueFilters): Parameters {
  return {
    operation: filters.operation,
    syscall: filters.syscall,
    device: filters.device,
    file: filters.file,
    error: filters.error,
    exclude_service: filters.excludeService,
    exclude_node: filters.excludeNode,
    exclude_event_type: filters.excludeType,
    exclude_operation: filters.excludeOperation,
    exclude_syscall: filters.excludeSyscall,
    exclude_device: filters.excludeDevice,
    exclude_comm: filters.excludeComm,
    exclude_file: filters.excludeFile,
    exclude_error: filters.excludeError,
  };
}
