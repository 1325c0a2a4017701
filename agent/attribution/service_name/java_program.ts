/** Finds the program that a Java machine runs. */
import { basename } from 'node:path';

/** Options whose value is the next argument: java(1). */
const VALUE_OPTIONS = new Set([
  ...['-cp', '-classpath', '--class-path', '-p', '--module-path', '--upgrade-module-path', '--add-modules'],
  ...['--enable-native-access', '--add-reads', '--add-exports', '--add-opens', '--limit-modules', '--patch-module'],
  ...['--source', '-d', '--describe-module'],
]);
const MODULE_OPTIONS = new Set(['-m', '--module']);
/** `@file` contains more options. */
const OPTION = /^[-@]/;
const SOURCE_FILE = /\.java$/;
const MODULE_PREFIX = '--module=';

/** Returns the jar or source file without its folder and extension, or the full name of the main class. */
export function javaProgramOf(args: readonly string[]): string | undefined {
  let isJar = false;
  for (let i = 1; i < args.length; i++) {
    const argument = args[i]!;
    if (MODULE_OPTIONS.has(argument)) return mainClassOf(args[i + 1] ?? '');
    if (argument.startsWith(MODULE_PREFIX)) return mainClassOf(argument.slice(MODULE_PREFIX.length));
    // The next argument need not be the jar: more options may follow.
    if (argument === '-jar') isJar = true;
    else if (VALUE_OPTIONS.has(argument)) i++;
    else if (!OPTION.test(argument)) return isJar || SOURCE_FILE.test(argument) ? fileNameOf(argument) : argument;
  }
  return undefined;
}

/** Main class in `module/class`; without one, the module's name, as the module itself names its main class. */
function mainClassOf(module: string): string {
  return module.slice(module.indexOf('/') + 1) || module;
}

function fileNameOf(path: string): string {
  return basename(path).replace(/(?<=.)\.(jar|java)$/, '');
}
