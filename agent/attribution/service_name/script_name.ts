/** Finds the script or jar that an interpreter runs, since the executable shows only the language. */
import { basename } from 'node:path';
import { cleanName } from './clean_name.ts';

const EXTENSION = /(?<=.)\.(py|js|mjs|cjs|ts|rb|pl|php|sh)$/;

/**
 * Returns the name of the script or jar; undefined if the program is not an interpreter, or runs no file. `args` is
 * argv, which begins with the program's own name.
 */
export function findScriptName(executable: string, args: readonly string[]): string | undefined {
  const name = executable === 'java' ? findJavaProgram(args) : findInterpretedName(executable, args);
  return cleanName(name ?? '') || undefined;
}

function findInterpretedName(executable: string, args: readonly string[]): string | undefined {
  const interpreter = INTERPRETERS.find((each) => each.executable.test(executable));
  const program = interpreter && findProgram(interpreter, args);
  if (program?.kind !== 'script') return program?.value;
  // Standard input and the shell's `<(...)` are paths in /dev that end with a number, which is not a name.
  return program.value.startsWith('/dev/') ? undefined : basename(program.value).replace(EXTENSION, '');
}

interface StartedScript {
  kind: 'script' | 'module';
  value: string;
}

function findProgram({ options, isShell = false }: Interpreter, args: readonly string[]): StartedScript | undefined {
  let next = 1;
  while (next < args.length) {
    const argument = args[next++]!;
    if (argument === '--' || (isShell && argument === '-')) return { kind: 'script', value: args[next] ?? '' };
    if (argument === '-') return undefined;
    const isOption = argument.startsWith('-') || (isShell && argument.startsWith('+'));
    if (!isOption) return { kind: 'script', value: argument };
    for (const { following, attached } of parseOptionArgument(argument, options)) {
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
  following: OptionKind | undefined;
  attached: string;
}

/**
 * Parses `--name`, `--name=value`, or letters after a dash. The first letter that takes a value has the rest of the
 * argument as its value.
 */
function* parseOptionArgument(argument: string, options: Interpreter['options']): Generator<Option> {
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

/* Lists the options of interpreters that affect which argument is the script. */

/**
 * The arguments that an option takes:
 *   value   a value, attached or as the next argument
 *   next    a value as the next argument, whatever is attached
 *   rest    a value that can only be attached, or none
 *   code    code or standard input: no file is run
 *   module  the name of the module that is run
 *   script  the path of the script
 */
type OptionKind = 'value' | 'next' | 'rest' | 'code' | 'module' | 'script';

interface Interpreter {
  /** Matches the file names of the interpreter. */
  executable: RegExp;
  /** Options by letter or by full long name. An option that is not listed takes no value. */
  options: ReadonlyMap<string, OptionKind>;
  /**
   * Whether the interpreter is a shell. In a shell, `+x` is an option, too, and a lone dash ends the options instead of
   * meaning standard input.
   */
  isShell?: boolean;
}

function parseOptionKinds(groups: Partial<Record<OptionKind, string>>): ReadonlyMap<string, OptionKind> {
  const pairs = Object.entries(groups) as [OptionKind, string][];
  return new Map(pairs.flatMap(([kind, names]) => names.split(/\s+/).map((name) => [name, kind] as const)));
}

const INTERPRETERS: readonly Interpreter[] = [
  {
    executable: /^python[\d.]*$/,
    options: parseOptionKinds({ value: 'W X --check-hash-based-pycs', code: 'c', module: 'm' }),
  },
  {
    // The options of Node 24 that take a value, and `--loader` of older versions. V8's own options only have attached
    // values.
    executable: /^node(js)?$/,
    options: parseOptionKinds({
      code: 'e p --eval --print --run',
      value: `r C --require --import --loader --experimental-loader --conditions --env-file --env-file-if-exists
        --title --input-type --icu-data-dir --openssl-config --tls-cipher-list --tls-keylog --unhandled-rejections
        --disable-warning --disable-proto --redirect-warnings --dns-result-order --diagnostic-dir --localstorage-file
        --network-family-autoselection-attempt-timeout --max-http-header-size --max-old-space-size-percentage
        --inspect-port --debug-port --inspect-publish-uid --secure-heap --secure-heap-min --security-revert
        --report-dir --report-directory --report-filename --report-signal --snapshot-blob --use-largepages
        --cpu-prof-dir --cpu-prof-interval --cpu-prof-name --heap-prof-dir --heap-prof-interval --heap-prof-name
        --heapsnapshot-signal --heapsnapshot-near-heap-limit --trace-event-categories --trace-event-file-pattern
        --trace-require-module --v8-pool-size --watch-path --watch-kill-signal --allow-fs-read --allow-fs-write
        --build-snapshot-config --experimental-sea-config --experimental-config-file --experimental-package-map
        --test-concurrency --test-coverage-branches --test-coverage-exclude --test-coverage-functions
        --test-coverage-include --test-coverage-lines --test-global-setup --test-isolation --test-name-pattern
        --test-reporter --test-reporter-destination --test-shard --test-skip-pattern --test-timeout`,
    }),
  },
  {
    executable: /^ruby[\d.]*$/,
    options: parseOptionKinds({
      code: 'e',
      value: 'r I C E --encoding --external-encoding --internal-encoding --enable --disable',
      rest: 'F i K T W x',
    }),
  },
  {
    executable: /^perl[\d.]*$/,
    options: parseOptionKinds({ code: 'e E', value: 'I', rest: 'm M C D F V d i x' }),
  },
  {
    executable: /^php[\d.]*$/,
    options: parseOptionKinds({
      code: 'r B R E --run --process-begin --process-code --process-end',
      script: 'f F --file --process-file',
      value: 'c d t z S --php-ini --define --docroot --zend-extension --server',
    }),
  },
  {
    executable: /^(ba|da)?sh$/,
    options: parseOptionKinds({ code: 'c s', next: 'o O --rcfile --init-file' }),
    isShell: true,
  },
];

/* Finds the program that a Java machine runs. */

/** Options whose value is the next argument: java(1). */
const VALUE_OPTIONS = new Set([
  ...['-cp', '-classpath', '--class-path', '-p', '--module-path', '--upgrade-module-path', '--add-modules'],
  ...['--enable-native-access', '--add-reads', '--add-exports', '--add-opens', '--limit-modules', '--patch-module'],
  ...['--source', '-d', '--describe-module'],
]);
const MODULE_OPTIONS = new Set(['-m', '--module']);
/** Matches an option, or `@file`, which contains more options. */
const OPTION = /^[-@]/;
const SOURCE_FILE = /\.java$/;
const MODULE_PREFIX = '--module=';

/** Returns the jar or source file without its folder and extension, or the full name of the main class. */
function findJavaProgram(args: readonly string[]): string | undefined {
  let isJar = false;
  for (let i = 1; i < args.length; i++) {
    const argument = args[i]!;
    if (MODULE_OPTIONS.has(argument)) return parseMainClass(args[i + 1] ?? '');
    if (argument.startsWith(MODULE_PREFIX)) return parseMainClass(argument.slice(MODULE_PREFIX.length));
    // The next argument need not be the jar: more options may follow.
    if (argument === '-jar') isJar = true;
    else if (VALUE_OPTIONS.has(argument)) i++;
    else if (!OPTION.test(argument)) return isJar || SOURCE_FILE.test(argument) ? parseFileName(argument) : argument;
  }
  return undefined;
}

/**
 * Returns the main class in `module/class`. If there is no class, returns the module's name, because the module
 * declares its main class itself.
 */
function parseMainClass(module: string): string {
  return module.slice(module.indexOf('/') + 1) || module;
}

function parseFileName(path: string): string {
  return basename(path).replace(/(?<=.)\.(jar|java)$/, '');
}
