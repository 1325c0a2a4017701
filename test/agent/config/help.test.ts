/** Tests that the help of every command ends with examples, which the command accepts, and with its exit codes. */
import type { Command } from 'commander';
import { createWholeProgram } from '../../../daemon/cli/program.ts';

interface Helped {
  command: Command;
  /** Such as `kreplay config print`. */
  name: string;
  help: string;
}

let program: Command;
let all: Helped[];
beforeAll(async () => {
  program = await createWholeProgram();
  all = [...everyCommand(program, 'kreplay')];
});

function* everyCommand(command: Command, name: string): Generator<Helped> {
  yield { command, name, help: helpOf(command) };
  for (const below of command.commands) yield* everyCommand(below, `${name} ${below.name()}`);
}

/** Returns what `--help` prints; `helpInformation` would leave out the end. */
function helpOf(command: Command): string {
  let help = '';
  command.configureOutput({
    writeOut: (text) => {
      help += text;
    },
  });
  command.outputHelp();
  return help;
}

/** Returns the lines of a part without their indentation. */
function partOf(help: string, heading: string): string[] {
  const [, part = ''] = new RegExp(`\\n${heading}:\\n((?:  .*\\n)+)`).exec(help) ?? [];
  return part
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.slice(2));
}

/** Splits a line as a shell does, where it has neither variables nor escapes. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, single, double, bare]) => single ?? double ?? bare!);
}

interface Call {
  called: Command;
  words: string[];
}

function callOf(example: string): Call {
  let called = program;
  const words = wordsOf(example).slice(1);
  for (let next: Command | undefined; ; called = next) {
    next = called.commands.find((one) => one.name() === words[0]);
    if (!next) return { called, words };
    words.shift();
  }
}

test('all commands are looked at', () => {
  expect(all.length).toBeGreaterThan(25);
});

test('every help has examples that call its command, or one below it', () => {
  for (const { command, name, help } of all) {
    const examples = partOf(help, 'Examples');
    expect([name, examples.filter((line) => line === name || line.startsWith(`${name} `))]).toEqual([name, examples]);
    expect([name, examples]).not.toEqual([name, []]);
    const wrong = examples.filter((example) => !isBelow(callOf(example).called, command));
    expect([name, wrong]).toEqual([name, []]);
  }
});

function isBelow(command: Command | null, above: Command): boolean {
  return command !== null && (command === above || isBelow(command.parent, above));
}

describe('an example', () => {
  test('has only options that its command has, with values that it takes', () => {
    for (const { help } of all) {
      for (const example of partOf(help, 'Examples')) {
        const { called, words } = callOf(example);
        called.exitOverride((error) => {
          throw new Error(`${example}: ${error.message}`);
        });
        const own = words.includes('--') ? words.slice(0, words.indexOf('--')) : words;
        expect([example, called.parseOptions(own).unknown]).toEqual([example, []]);
      }
    }
  });

  test('is split into words as a shell does', () => {
    expect(wordsOf(`kreplay sql "since = '-15m'" --break 'a > 1'`)).toEqual([
      'kreplay',
      'sql',
      "since = '-15m'",
      '--break',
      'a > 1',
    ]);
  });
});

test('every help has the exit codes, with that of success or of the command that it runs', () => {
  for (const { name, help } of all) {
    const codes = partOf(help, 'Exit codes').map((line) => /^(\d+|other) {2,}\S/.exec(line)?.[1]);
    expect([name, codes]).not.toEqual([name, expect.arrayContaining([undefined])]);
    expect([name, codes.includes('0') || codes.includes('other')]).toEqual([name, true]);
  }
});
