/** Options that select by values of events, and that exclude values; the API has the same parameters. */
import type { Command } from 'commander';
import { list } from './option_values.ts';

const VALUES = {
  operation: 'these block operations',
  syscall: 'these system calls',
  device: 'these disks',
  file: 'these files, by path or path*',
  error: 'these errors, as ENOSPC',
} as const;

const EXCLUDED = {
  service: 'these services',
  node: 'these hosts',
  type: 'these types',
  ...VALUES,
  comm: 'these command names',
} as const;

type Selected = { [Name in keyof typeof VALUES]?: string[] };
type Excluded = { [Name in keyof typeof EXCLUDED as `exclude${Capitalize<Name>}`]?: string[] };
export type ValueFilters = Selected & Excluded;

/**
 * `what` is listed: events, or transactions with such events. Each option is one line of the help, which fits on a
 * screen.
 */
export function withValueFilters(command: Command, what: 'events' | 'transactions'): Command {
  const having = what === 'events' ? 'only' : 'with';
  for (const [name, values] of Object.entries(VALUES))
    command.option(`--${name} <names>`, `${having} ${values}; a list`, list);
  for (const [name, values] of Object.entries(EXCLUDED))
    command.option(`--exclude-${name} <names>`, `without ${values}; a list`, list);
  return command;
}

export function valueParameters(filters: ValueFilters): Record<string, string | undefined> {
  return {
    operation: filters.operation?.join(),
    syscall: filters.syscall?.join(),
    device: filters.device?.join(),
    file: filters.file?.join(),
    error: filters.error?.join(),
    exclude_service: filters.excludeService?.join(),
    exclude_node: filters.excludeNode?.join(),
    exclude_event_type: filters.excludeType?.join(),
    exclude_operation: filters.excludeOperation?.join(),
    exclude_syscall: filters.excludeSyscall?.join(),
    exclude_device: filters.excludeDevice?.join(),
    exclude_comm: filters.excludeComm?.join(),
    exclude_file: filters.excludeFile?.join(),
    exclude_error: filters.excludeError?.join(),
  };
}
