/** Entry point: one binary whose subcommands come from the folders that implement them. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Command } from 'commander';
import { EXIT_CODES, withHelpEnd } from './agent/config/help.ts';
import { printable } from './agent/output/printable.ts';
import { UserError } from './agent/process/errors.ts';
import { toUserError } from './agent/process/surroundings.ts';

/** Each command is loaded only when it is called: `kreplay exec` must not pay for the daemon. */
const COMMANDS: Record<string, () => Promise<Command>> = {
  up: async () => {
    const { withDaemonOptions, withDaemonCommandOptions } = await import('./daemon/server/options.ts');
    return (await import('./agent/up.ts')).upCommand(withDaemonOptions, withDaemonCommandOptions);
  },
  demo: async () => (await import('./daemon/cli/demo/demo.ts')).demoCommand(),
  agent: async () => (await import('./agent/command.ts')).agentCommand(),
  daemon: async () => (await import('./daemon/server/command.ts')).daemonCommand(),
  config: async () => {
    const [agent, daemon, ship, fleet] = await Promise.all([
      import('./agent/command.ts'),
      import('./daemon/server/options.ts'),
      import('./agent/ship/command.ts'),
      import('./agent/fleet/section.ts'),
    ]);
    return (await import('./agent/config/command.ts')).configCommand({
      agent: agent.AGENT_SECTION,
      daemon: daemon.DAEMON_SECTION,
      ship: ship.SHIP_SECTION,
      fleet: fleet.FLEET_SECTION,
    });
  },
  doctor: async () => (await import('./agent/doctor/command.ts')).doctorCommand(),
  fleet: async () => (await import('./agent/fleet/command.ts')).fleetCommand(),
  ship: async () => (await import('./agent/ship/command.ts')).shipCommand(),
  exec: async () => (await import('./agent/exec.ts')).execCommand(),
  events: async () => (await import('./daemon/cli/commands/events.ts')).eventsCommand(),
  tail: async () => (await import('./daemon/cli/commands/tail.ts')).tailCommand(),
  show: async () => (await import('./daemon/cli/commands/show.ts')).showCommand(),
  transactions: async () => (await import('./daemon/cli/commands/transactions.ts')).transactionsCommand(),
  services: async () => (await import('./daemon/cli/commands/services.ts')).servicesCommand(),
  stats: async () => (await import('./daemon/cli/commands/stats.ts')).statsCommand(),
  pin: async () => (await import('./daemon/cli/commands/pin.ts')).pinCommand(),
  unpin: async () => (await import('./daemon/cli/commands/pin.ts')).unpinCommand(),
  export: async () => (await import('./daemon/cli/commands/export.ts')).exportCommand(),
  import: async () => (await import('./daemon/cli/commands/import.ts')).importCommand(),
  verify: async () => (await import('./daemon/cli/commands/verify.ts')).verifyCommand(),
  sql: async () => (await import('./daemon/cli/commands/sql.ts')).sqlCommand(),
  token: async () => (await import('./daemon/cli/commands/token.ts')).tokenCommand(),
  replay: async () => (await import('./daemon/cli/player/replay.ts')).replayCommand(),
  whatif: async () => (await import('./daemon/cli/commands/whatif.ts')).whatIfCommand(),
  diff: async () => (await import('./daemon/cli/commands/diff.ts')).diffCommand(),
  run: async () => (await import('./daemon/cli/commands/run.ts')).runCommand(),
};

const EXAMPLES = [
  'kreplay up',
  'kreplay events --transaction order-1',
  'kreplay replay order-1',
  'kreplay run --bundle incident.kreplay --transaction order-1 -- make test',
];

/** Other exit codes of `run` are its command's. */
const RUN_FAILED = 125;

/** Exit code for wrong usage. */
const usageError = (name: string) => (name === 'run' ? RUN_FAILED : 2);

interface OwnPackage {
  version: string;
  /** The commands that an archive has; an installed package and a built tree have all. */
  commands?: string[];
}

const OWN_PACKAGE: OwnPackage = JSON.parse(readFileSync(createRequire(import.meta.url).resolve('#package'), 'utf8'));

export const version = (): string => OWN_PACKAGE.version;

const isHere = (name: string): boolean => OWN_PACKAGE.commands?.includes(name) !== false;

async function main(args: readonly string[]): Promise<void> {
  const [name = ''] = args;
  const asked = COMMANDS[name];
  if (asked && !isHere(name)) {
    const others = OWN_PACKAGE.commands!.join(', ');
    tell(`this archive has no ${name}, only ${others}; install the Debian package to record and to look at events`);
    process.exit(2);
  }
  const here = Object.entries(COMMANDS).filter(([other]) => isHere(other));
  const loaders = asked ? [asked] : here.map(([, load]) => load);
  const program = newProgram().exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : usageError(name)));
  // `| head` closes standard output when it has enough, which is success. A command that must clean up listens to the
  // signal.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // EIO comes from a terminal that hung up.
    if (error.code === 'EPIPE' || error.code === 'EIO') {
      if (!process.emit('SIGPIPE', 'SIGPIPE')) process.exit(0);
      return;
    }
    tell(`standard output: ${error.message}`);
    process.exit(1);
  });
  // Where nothing can be said, the command still does its work, and its exit code says how that went.
  process.stderr.on('error', () => {});
  try {
    await addCommands(program, loaders);
    await program.parseAsync(args, { from: 'user' });
  } catch (thrown) {
    const error = toUserError(thrown);
    if (!(error instanceof UserError)) {
      // A defect keeps its stack, and Node's exit code for it could be the command's.
      if (name === 'run') process.once('exit', () => (process.exitCode = RUN_FAILED));
      throw error;
    }
    tell(error.message);
    // A command that was ended early does not wait for a reader of its output.
    if (error.name === 'Interrupted') process.exit(1);
    process.exitCode = error.exitCode;
  }
}

async function addCommands(program: Command, loaders: readonly (() => Promise<Command>)[]): Promise<void> {
  for (const load of loaders) {
    const command = await load();
    program.addCommand(command);
    for (const one of [command, ...command.commands]) pointToHelp(one.copyInheritedSettings(program));
  }
}

/** Makes wrong usage point to the help. */
function pointToHelp(command: Command): Command {
  const names: string[] = [];
  for (let one: Command | null = command; one; one = one.parent) names.unshift(one.name());
  return command.showHelpAfterError(`See ${names.join(' ')} --help`);
}

/** The program with all commands, for code that describes it. */
export async function wholeProgram(): Promise<Command> {
  const program = newProgram();
  await addCommands(program, Object.values(COMMANDS));
  return program;
}

function newProgram(): Command {
  const program = new Command('kreplay').description('A kernel flight recorder with replay.');
  withHelpEnd(program, {
    examples: EXAMPLES.filter((example) => isHere(example.split(' ')[1]!)),
    exitCodes: { ...EXIT_CODES, other: 'see the help of the command' },
  });
  return pointToHelp(program.version(version(), '--version'));
}

/** Messages quote files, which anyone may have written. */
function tell(message: string): void {
  process.stderr.write(`kreplay: ${message.split('\n').map(printable).join('\n')}\n`);
}

if (import.meta.main) await main(process.argv.slice(2));
