/** `kreplay doctor`: reports whether this host can be recorded, what it lacks, and how owners are determined here. */
import { existsSync } from 'node:fs';
import { Command, InvalidArgumentError, Option } from 'commander';
import { describeLimits, LAYERS, type LayerState } from '../capture/layers.ts';
import { AGENT_SECTION, addRingSizeOption } from '../command.ts';
import { addConfigOption, attachConfiguration, DATA_DEFAULT } from '../config/configuration.ts';
import { addHelpEnd, EXIT_CODES } from '../config/help.ts';
import { listDeclared } from '../config/setting.ts';
import { escapeControls } from '../output/printable.ts';
import { HOST_UNFIT_EXIT_CODE } from '../process/errors.ts';
import { addRetentionOptions, type RetentionFlags } from '../retention_options.ts';
import { buildShipServer, SHIP_SECTION, type ShipServerFlags } from '../ship/command.ts';
import type { Check, CheckState } from './check.ts';
import { type Diagnosis, diagnose } from './diagnosis.ts';

interface DoctorFlags extends RetentionFlags, ShipServerFlags {
  data: string;
  ringSize: number;
  sample: number;
  output: 'text' | 'json';
}

const SAMPLE_SECONDS_MAX = 3600;

function parseSampleSeconds(value: string): number {
  const seconds = Number(value);
  if (value.trim() !== '' && seconds >= 0 && seconds <= SAMPLE_SECONDS_MAX) return seconds;
  throw new InvalidArgumentError(`It must be a number of seconds from 0 to ${SAMPLE_SECONDS_MAX}.`);
}

export function createDoctorCommand(): Command {
  const command = new Command('doctor')
    .summary('check whether this host can be recorded')
    .description(
      'check whether this host can be recorded, what it lacks, and how the owners of events are determined here',
    )
    .option('--data <folder>', 'data folder to check', DATA_DEFAULT);
  // The checks use the settings of the agent and of the shipper.
  const configuration = attachConfiguration(command);
  // The agent's section is declared last, so that its data folder and log settings override the settings of `ship`.
  configuration.declare('ship', listDeclared(SHIP_SECTION.declare(new Command())));
  configuration.declare('agent', listDeclared(AGENT_SECTION.declare(new Command())));
  addRingSizeOption(command)
    .option(
      '--sample <seconds>',
      'how long to count events, for advice on the size of the ring; 0 skips it',
      parseSampleSeconds,
      1,
    )
    .addOption(new Option('--output <format>', 'output format').choices(['text', 'json']).default('text'));
  addConfigOption(addRetentionOptions(command)).action(runDoctor);
  return addHelpEnd(command, {
    examples: ['kreplay doctor', 'kreplay doctor --data /var/lib/kreplay --sample 10 --output json'],
    exitCodes: {
      ...EXIT_CODES,
      0: 'this host can be recorded',
      [HOST_UNFIT_EXIT_CODE]: 'this host cannot be recorded',
    },
  });
}

async function runDoctor({ data, ringSize, sample, output, ...flags }: DoctorFlags): Promise<void> {
  const diagnosis = await diagnose({
    dataFolder: data,
    ringBytes: ringSize * 1024 * 1024,
    sampleMs: sample * 1000,
    retention: flags,
    ship: buildShipServer(flags),
  });
  const text =
    output === 'json' ? `${JSON.stringify(diagnosis, null, 2)}\n` : formatDiagnosis(diagnosis, process.stdout.columns);
  process.stdout.write(text);
  if (!diagnosis.ok) process.exitCode = HOST_UNFIT_EXIT_CODE;
}

/* Formats a diagnosis as a table. */

const MARKS: Record<CheckState, string> = { ok: 'ok', warning: 'warn', failed: 'NO', unknown: '?' };

type CheckRow = readonly [mark: string, name: string, text: string];

/** `width` is the terminal's width; if it is missing, lines are not wrapped. */
function formatDiagnosis(diagnosis: Diagnosis, width = Number.POSITIVE_INFINITY): string {
  const { checks, layers } = diagnosis;
  const rows: CheckRow[] = [...checks.map(formatCheckRow), ...layers.map(formatLayerRow)];
  const marks = Math.max(...rows.map(([mark]) => mark.length));
  const names = Math.max(...rows.map(([, name]) => name.length));
  const lines = rows.flatMap(([mark, name, text]) => {
    const [first = '', ...rest] = wrapText(escapeControls(text), width - marks - names - 4);
    const indent = ' '.repeat(marks + names + 4);
    return [`${mark.padEnd(marks)}  ${name.padEnd(names)}  ${first}`, ...rest.map((line) => indent + line)];
  });
  return `${[...lines, describeVerdict(diagnosis)].join('\n')}\n`;
}

function describeVerdict({ ok, recording }: Diagnosis): string {
  if (!ok) return 'This host cannot be recorded as it is.';
  if (recording) return 'This host can be recorded, and an agent records it.';
  return `This host can be recorded: ${isServiceInstalled() ? 'systemctl start kreplay-agent' : 'kreplay up'}`;
}

/** The unit of the Debian package. */
const AGENT_UNIT = '/usr/lib/systemd/system/kreplay-agent.service';
/** Exists while systemd is the service manager: see sd_booted(3). */
const SYSTEMD_FOLDER = '/run/systemd/system';

function isServiceInstalled(): boolean {
  return existsSync(AGENT_UNIT) && existsSync(SYSTEMD_FOLDER);
}

function formatCheckRow({ state, name, text, advice }: Check): CheckRow {
  return [MARKS[state], name, advice === undefined ? text : `${text}; ${advice}`];
}

function formatLayerRow(layer: LayerState): CheckRow {
  const notes = layer.on ? describeLimits(layer) : [layer.reason];
  const text = LAYERS[layer.name];
  return [layer.on ? 'on' : 'off', layer.name, notes.length > 0 ? `${text}: ${notes.join('; ')}` : text];
}

const WIDTH_MIN = 20;

function wrapText(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > Math.max(width, WIDTH_MIN)) {
      lines.push(line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line];
}
