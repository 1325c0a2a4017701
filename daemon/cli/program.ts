/** The commands of the program. Each command is imported from the folder that implements it. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Command, type CommanderError } from 'commander';
import { addHelpEnd, EXIT_CODES } from '../../agent/config/help.ts';
import { UserError } from '../../agent/process/errors.ts';

/**
 * Functions that import the commands. A command is imported only when it is called, so that short commands such as
 * `kreplay exec` start fast.
 */
const COMMANDS: Record<string, () => Promise<Command>> = {
  up: async () => {
    const { addDaemonOptions, addDaemonCommandOptions } = await import('../server/options.ts');
    return (await import('./up.ts')).createUpCommand(addDaemonOptions, addDaemonCommandOptions);
  },
  demo: async () => (await import('./demo/demo.ts')).createDemoCommand(),
  agent: async () => (await import('../../agent/command.ts')).createAgentCommand(),
  daemon: async () => (await import('../server/command.ts')).createDaemonCommand(),
  config: async () => {
    const [agent, daemon, ship, fleet, watch] = await Promise.all([
      import('../../agent/command.ts'),
      import('../server/options.ts'),
      import('../../agent/ship/command.ts'),
      import('../../agent/fleet/section.ts'),
      import('../watch/command.ts'),
    ]);
    return (await import('../../agent/config/command.ts')).createConfigCommand({
      agent: agent.AGENT_SECTION,
      daemon: daemon.DAEMON_SECTION,
      ship: ship.SHIP_SECTION,
      fleet: fleet.FLEET_SECTION,
      watch: watch.WATCH_SECTION,
    });
  },
  doctor: async () => (await import('../../agent/doctor/command.ts')).createDoctorCommand(),
  fleet: async () => (await import('../../agent/fleet/command.ts')).createFleetCommand(),
  ship: async () => (await import('../../agent/ship/command.ts')).createShipCommand(),
  exec: async () => (await import('../../agent/exec.ts')).createExecCommand(),
  events: async () => (await import('./commands/events.ts')).createEventsCommand(),
  tail: async () => (await import('./commands/tail.ts')).createTailCommand(),
  show: async () => (await import('./commands/show.ts')).createShowCommand(),
  transactions: async () => (await import('./commands/transactions.ts')).createTransactionsCommand(),
  services: async () => (await import('./commands/services.ts')).createServicesCommand(),
  stats: async () => (await import('./commands/stats.ts')).createStatsCommand(),
  pin: async () => (await import('./commands/pin.ts')).createPinCommand(),
  unpin: async () => (await import('./commands/pin.ts')).createUnpinCommand(),
  watch: async () => (await import('../watch/command.ts')).createWatchCommand(),
  export: async () => (await import('./commands/export.ts')).createExportCommand(),
  import: async () => (await import('./commands/import.ts')).createImportCommand(),
  verify: async () => (await import('./commands/verify.ts')).createVerifyCommand(),
  sql: async () => (await import('./commands/sql.ts')).createSqlCommand(),
  token: async () => (await import('./commands/token.ts')).createTokenCommand(),
  replay: async () => (await import('./player/replay.ts')).createReplayCommand(),
  whatif: async () => (await import('./commands/whatif.ts')).createWhatIfCommand(),
  diff: async () => (await import('./commands/diff.ts')).createDiffCommand(),
  ci: async () => (await import('./commands/ci.ts')).createCiCommand(),
  run: async () => (await import('./commands/run.ts')).createRunCommand(),
};

const EXAMPLES = [
  'kreplay up',
  'kreplay events --transaction order-1',
  'kreplay replay order-1',
  'kreplay run --bundle incident.kreplay --transaction order-1 -- make test',
];

interface InstalledPackage {
  version: string;
  /**
   * Names of the commands that an archive contains; undefined in an installed package or a built tree, which contain
   * all commands.
   */
  commands?: string[];
}

const OWN_PACKAGE: InstalledPackage = JSON.parse(
  readFileSync(createRequire(import.meta.url).resolve('#package'), 'utf8'),
);

export const version = (): string => OWN_PACKAGE.version;

const isHere = (name: string): boolean => OWN_PACKAGE.commands?.includes(name) !== false;

/** The error for a command that is not in this archive. */
class CommandLeftOut extends UserError {
  override readonly exitCode = 2;

  constructor(name: string, commands: readonly string[]) {
    const others = commands.join(', ');
    super(`this archive has no ${name}, only ${others}; install the Debian package to record and to look at events`);
  }
}

/**
 * Returns the program with the command `name`, or with all commands if no command has this name. commander calls `exit`
 * on wrong usage, and after it has printed help or the version.
 * @throws UserError if the command is not in this archive
 */
export async function loadProgram(name: string, exit: (error: CommanderError) => never): Promise<Command> {
  const asked = COMMANDS[name];
  if (asked && !isHere(name)) throw new CommandLeftOut(name, OWN_PACKAGE.commands!);
  const here = Object.entries(COMMANDS).filter(([other]) => isHere(other));
  const program = createProgram().exitOverride(exit);
  await addCommands(program, asked ? [asked] : here.map(([, load]) => load));
  return program;
}

async function addCommands(program: Command, loaders: readonly (() => Promise<Command>)[]): Promise<void> {
  for (const load of loaders) {
    const command = await load();
    program.addCommand(command);
    for (const one of [command, ...command.commands]) pointToHelp(one.copyInheritedSettings(program));
  }
}

/** Adds a hint at `--help` to the messages about wrong usage. */
function pointToHelp(command: Command): Command {
  const names: string[] = [];
  for (let one: Command | null = command; one; one = one.parent) names.unshift(one.name());
  return command.showHelpAfterError(`See ${names.join(' ')} --help`);
}

/** Returns the program with all commands, for code that describes them. */
export async function createWholeProgram(): Promise<Command> {
  const program = createProgram();
  await addCommands(program, Object.values(COMMANDS));
  return program;
}

function createProgram(): Command {
  const program = new Command('kreplay').description('A kernel flight recorder with replay.');
  addHelpEnd(program, {
    examples: EXAMPLES.filter((example) => isHere(example.split(' ')[1]!)),
    exitCodes: { ...EXIT_CODES, other: 'see the help of the command' },
  });
  return pointToHelp(program.version(version(), '--version'));
}
