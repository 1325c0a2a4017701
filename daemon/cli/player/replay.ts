/** `kreplay replay`: plays a transaction in a player on the terminal, or prints its events into a pipeline. */
import { Command, InvalidArgumentError, Option } from 'commander';
import { addHelpEnd } from '../../../agent/config/help.ts';
import { SPEED_FACTOR_MAX, SPEED_FACTOR_MIN } from '../../contract/replay_requests.ts';
import { CommandError } from '../client/command_error.ts';
import { createUrlOption } from '../options/option_values.ts';
import { addProjectionOptions, buildProjection, type ProjectionOptions } from '../options/projection_options.ts';
import { type BreakCondition, parseCondition } from './condition.ts';
import { EXIT_HELP } from './exit_codes.ts';
import { KEYS_HELP } from './keys.ts';
import { printReplay } from './lines.ts';
import { playOnScreen } from './player.ts';
import { createRemoteSession } from './remote_session.ts';
import { isEventPlace, stopRule } from './stop_rule.ts';
import { hasScreen } from './terminal.ts';

interface Options extends ProjectionOptions {
  speed: number;
  untilEvent?: string;
  break?: BreakCondition;
  url: string;
  output: 'player' | 'text' | 'ndjson';
}

export function createReplayCommand(): Command {
  const command = new Command('replay')
    .description('replay a transaction in its own time: in a player on a terminal, else event by event')
    .argument('<transaction>', 'transaction id')
    .option('--speed <factor>', 'speed factor: 2 is twice as fast, 0.5 half as fast', parseSpeedFactor, 1);
  addProjectionOptions(
    command,
    'latency to add to every call',
    'deadline of a caller: mark the events that end after it',
  )
    .option(
      '--until-event <event>',
      'stop right after this event: its id, or its index in the replay from 0',
      parseEventPlace,
    )
    .option(
      '--break <condition>',
      "stop right after an event that matches, such as 'duration_ms>50 && error!=null'",
      breakIf,
    )
    .addOption(createUrlOption())
    .addOption(
      new Option('--output <format>', 'text and ndjson: one event per line')
        .choices(['player', 'text', 'ndjson'])
        .default(chooseDefaultOutput(), 'player on a terminal, else ndjson'),
    )
    .action(replay);
  return addHelpEnd(command, {
    notes: KEYS_HELP,
    examples: [
      'kreplay replay order-1',
      'kreplay replay order-1 --speed 0.5 --extra-latency 2ms --timeout 250ms',
      "kreplay replay order-1 --break 'duration_ms>50 && error!=null' --output text",
    ],
    exitCodes: EXIT_HELP,
  });
}

function chooseDefaultOutput(): Options['output'] {
  if (hasScreen()) return 'player';
  return process.stdout.isTTY ? 'text' : 'ndjson';
}

async function replay(transactionId: string, options: Options): Promise<void> {
  const { output } = options;
  if (output === 'player' && !hasScreen()) throw new CommandError('the player needs a terminal; see --output');
  const session = await createRemoteSession(options.url, {
    transaction_id: transactionId,
    speed_factor: options.speed,
    ...buildProjection(options),
  });
  try {
    const stopAt = await stopRule(session, options);
    process.exitCode = await (output === 'player'
      ? playOnScreen(session, stopAt)
      : printReplay(session, stopAt, output));
  } finally {
    // Removes the session, because the daemon would otherwise keep it for a day.
    await session.remove();
  }
}

function parseSpeedFactor(value: string): number {
  const factor = /^\d+(\.\d+)?$/.test(value) ? Number(value) : Number.NaN;
  if (factor >= SPEED_FACTOR_MIN && factor <= SPEED_FACTOR_MAX) return factor;
  throw new InvalidArgumentError(`must be a number from ${SPEED_FACTOR_MIN} to ${SPEED_FACTOR_MAX}`);
}

function parseEventPlace(value: string): string {
  if (isEventPlace(value)) return value;
  throw new InvalidArgumentError('must be an event id, or an index from 0');
}

function breakIf(value: string): BreakCondition {
  try {
    return parseCondition(value);
  } catch (error) {
    throw new InvalidArgumentError((error as Error).message);
  }
}
