/** Programs: the arguments and environment with which processes were started, as the kernel side read them at exec. */
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
  /** Whether a variable that is looked up may be missing although it is set. */
  environmentCut: boolean;
}

export interface Programs {
  /** `args` and `environment` are texts that each end with a NUL; the last of `args` may be cut. */
  define(definition: ProgramDefinition, args: string, environment: string): void;
  /** Undefined if the program's definition was lost or has been forgotten. */
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

/** Returns only the variables that are looked up; if a variable is set twice, the first one counts, as in getenv(3). */
export function parseEnvironment(text: string): Map<EnvironmentName, string> {
  const environment = new Map<EnvironmentName, string>();
  for (const variable of splitStrings(text)) {
    const separator = variable.indexOf('=');
    const name = ENVIRONMENT_NAMES.find((known) => known === variable.slice(0, separator));
    if (name && !environment.has(name)) environment.set(name, variable.slice(separator + 1));
  }
  return environment;
}

/** Splits a series of texts that each end with a NUL, except for the last text, which may have lost it. */
export function splitStrings(text: string): string[] {
  const found = text.split('\0');
  if (found.at(-1) === '') found.pop();
  return found;
}
