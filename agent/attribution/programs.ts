/**
 * Keeps programs: the arguments and environment with which processes were started, as the kernel side read them at
 * exec.
 */
import { PROGRAM_FLAGS } from '../../bpf/schema/definitions.ts';
import { ENVIRONMENT_NAMES, type EnvironmentName } from '../../bpf/schema/environment_names.ts';
import { createReferenceTable } from './reference_table.ts';

const PROGRAMS_MAX = 1 << 14;

export interface ProgramDefinition {
  program_id: number;
  flags: number;
  executable: string;
}

export interface Program {
  /** File name without its folder. */
  executable: string;
  args: readonly string[];
  environment: ReadonlyMap<EnvironmentName, string>;
  /** Whether the environment was cut short, so that a variable may be missing although it is set. */
  environmentCut: boolean;
}

export interface Programs {
  /**
   * Adds a program. `args` and `environment` are series of NUL-terminated texts; the last text of `args` may be cut
   * short.
   */
  define(definition: ProgramDefinition, args: string, environment: string): void;
  /** Returns the program; undefined if its definition was lost or dropped. */
  get(programId: number): Program | undefined;
}

export function createPrograms(): Programs {
  const programs = createReferenceTable<Program>(PROGRAMS_MAX);
  return {
    define({ program_id, flags, executable }, args, environment) {
      programs.set(program_id, {
        executable,
        args: splitStrings(args),
        environment: parseEnvironment(environment),
        environmentCut: (flags & PROGRAM_FLAGS.PROGRAM_ENVIRONMENT_CUT) !== 0,
      });
    },
    get: (programId) => programs.get(programId),
  };
}

/** Returns the variables of ENVIRONMENT_NAMES. If a variable is set twice, the first value counts, as in getenv(3). */
export function parseEnvironment(text: string): Map<EnvironmentName, string> {
  const environment = new Map<EnvironmentName, string>();
  for (const variable of splitStrings(text)) {
    const separator = variable.indexOf('=');
    const name = ENVIRONMENT_NAMES.find((known) => known === variable.slice(0, separator));
    if (name && !environment.has(name)) environment.set(name, variable.slice(separator + 1));
  }
  return environment;
}

/** Splits a series of NUL-terminated texts. The last text may lack its NUL. */
export function splitStrings(text: string): string[] {
  const found = text.split('\0');
  if (found.at(-1) === '') found.pop();
  return found;
}
