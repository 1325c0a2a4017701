/** Finds the script or jar that an interpreter runs, since the executable only shows the language. */
import { basename } from 'node:path';
import { cleanName } from './clean_name.ts';
import { type Following, INTERPRETERS, type Interpreter } from './interpreter_options.ts';
import { javaProgramOf } from './java_program.ts';

const EXTENSION = /(?<=.)\.(py|js|mjs|cjs|ts|rb|pl|php|sh)$/;

/** `args` is argv, the program's own name first. Returns undefined for no interpreter, or one that runs no file. */
export function scriptNameOf(executable: string, args: readonly string[]): string | undefined {
  const name = executable === 'java' ? javaProgramOf(args) : interpretedNameOf(executable, args);
  return cleanName(name ?? '') || undefined;
}

function interpretedNameOf(executable: string, args: readonly string[]): string | undefined {
  const interpreter = INTERPRETERS.find((each) => each.executable.test(executable));
  const program = interpreter && programOf(interpreter, args);
  if (program?.kind !== 'script') return program?.value;
  // Standard input and the shell's `<(...)` have numbers, not names.
  return program.value.startsWith('/dev/') ? undefined : basename(program.value).replace(EXTENSION, '');
}

interface Program {
  kind: 'script' | 'module';
  value: string;
}

function programOf({ options, isShell = false }: Interpreter, args: readonly string[]): Program | undefined {
  let next = 1;
  while (next < args.length) {
    const argument = args[next++]!;
    if (argument === '--' || (isShell && argument === '-')) return { kind: 'script', value: args[next] ?? '' };
    if (argument === '-') return undefined;
    const isOption = argument.startsWith('-') || (isShell && argument.startsWith('+'));
    if (!isOption) return { kind: 'script', value: argument };
    for (const { following, attached } of optionsIn(argument, options)) {
      if (following === 'code') return undefined;
      if (following === 'module' || following === 'script') {
        return { kind: following, value: attached || (args[next] ?? '') };
      }
      if (following === 'next' || (following === 'value' && !attached)) next++;
    }
  }
  return undefined;
}

interface Option {
  following: Following | undefined;
  attached: string;
}

/** Parses `--name`, `--name=value`, or letters, of which the first that takes a value is followed by it. */
function* optionsIn(argument: string, options: Interpreter['options']): Generator<Option> {
  if (argument.startsWith('--')) {
    const [name = '', attached = ''] = argument.split(/=(.*)/s);
    yield { following: options.get(name), attached };
    return;
  }
  for (let i = 1; i < argument.length; i++) {
    const following = options.get(argument[i]!);
    yield { following, attached: argument.slice(i + 1) };
    if (following !== undefined && following !== 'next') return;
  }
}
