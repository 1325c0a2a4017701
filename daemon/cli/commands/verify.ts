/** `kreplay verify`: checks whether recordings are intact, and reports what is lost in damaged recordings. */
import { statSync } from 'node:fs';
import { Command, Option } from 'commander';
import { addHelpEnd, EXIT_CODES } from '../../../agent/config/help.ts';
import { escapeControls } from '../../../agent/output/printable.ts';
import { RecordingError } from '../../../agent/recording/format/errors.ts';
import { isWhole, type LostTime, type Verified, verifyRecording } from '../../../agent/recording/read/verify.ts';
import { stringify } from '../../base/exact_json.ts';
import { formatTime } from '../../base/time_text.ts';
import { createNoRecordingError, listAllServedFiles } from '../../store/embedded/served_files.ts';
import { print } from '../print/standard_output.ts';

const NOTES = 'Reads each file to its end, also while an agent records, and changes nothing.';

interface Options {
  output: 'text' | 'json';
}

type VerificationOutcome = { path: string } & ({ verified: Verified } | { error: RecordingError });

export function createVerifyCommand(): Command {
  const command = new Command('verify')
    .description('check whether recordings are whole')
    .argument('<files...>', 'recordings, bundles, or data folders with all their recordings')
    .addOption(new Option('--output <format>', 'output format').choices(['text', 'json']).default('text'))
    .action(runVerify);
  return addHelpEnd(command, {
    notes: NOTES,
    examples: ['kreplay verify ./data', 'kreplay verify incident.kreplay --output json'],
    exitCodes: { ...EXIT_CODES, 0: 'all recordings are whole', 1: 'a recording is damaged or cannot be read' },
  });
}

async function runVerify(given: readonly string[], { output }: Options): Promise<void> {
  const outcomes: VerificationOutcome[] = [];
  for (const path of given.flatMap(listRecordings)) {
    const outcome = verifyFile(path);
    outcomes.push(outcome);
    if (output === 'text') await print(formatOutcome(outcome));
  }
  if (output === 'json') await print(`${stringify({ recordings: outcomes.map(buildOutcomeJson) })}\n`);
  if (!outcomes.every(isGood)) process.exitCode = 1;
}

function listRecordings(path: string): string[] {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return [path];
  const files = listAllServedFiles({ data: path, recordings: [] });
  if (files.length === 0) throw createNoRecordingError({ data: path, recordings: [] });
  return files.map((file) => file.path);
}

function verifyFile(path: string): VerificationOutcome {
  try {
    return { path, verified: verifyRecording(path) };
  } catch (error) {
    if (!(error instanceof RecordingError)) throw error;
    return { path, error };
  }
}

function isGood(outcome: VerificationOutcome): boolean {
  return 'verified' in outcome && isWhole(outcome.verified);
}

function formatOutcome(outcome: VerificationOutcome): string {
  if ('error' in outcome) return formatLines(outcome.path, ['cannot be read', outcome.error.message]);
  const { verified } = outcome;
  const { events, pages, damagedPages, damagedParts, problems, lost } = verified;
  const what = `${events} events of ${verified.node}, format ${verified.formatVersion}, ${pages} pages`;
  if (!isWhole(verified)) {
    const told = [`damaged: ${what} could be read`];
    if (damagedPages.length > 0) told.push(`pages that do not match their checksums: ${damagedPages.join(', ')}`);
    if (damagedParts.length > 0) told.push(`parts that cannot be read to their ends: ${damagedParts.join(', ')}`);
    told.push(...problems, ...lost.map(formatLostTime));
    if (damagedParts.length + problems.length + lost.length === 0) told.push('nothing is lost: no part uses them');
    return formatLines(outcome.path, told);
  }
  return formatLines(outcome.path, [`whole: ${what}`]);
}

function formatLostTime({ fromNs, toNs, events }: LostTime): string {
  if (events === 0) return 'an unknown number of events is lost, at unknown times';
  return `up to ${events} events are lost from ${formatTime(fromNs)} to ${formatTime(toNs)}`;
}

function formatLines(path: string, [first, ...more]: readonly string[]): string {
  return [`${path}: ${first}`, ...more.map((text) => `  ${text}`)].map((text) => `${escapeControls(text)}\n`).join('');
}

function buildOutcomeJson(outcome: VerificationOutcome): object {
  const { path } = outcome;
  if ('error' in outcome)
    return { path, state: 'unreadable', code: outcome.error.code, message: outcome.error.message };
  const { verified } = outcome;
  return {
    path,
    state: isWhole(verified) ? 'whole' : 'damaged',
    recording_id: verified.recordingId,
    node: verified.node,
    format_version: verified.formatVersion,
    events: verified.events,
    pages: verified.pages,
    damaged_pages: verified.damagedPages,
    damaged_parts: verified.damagedParts,
    problems: verified.problems,
    lost: verified.lost.map(({ fromNs, toNs, events }) => ({ from_ns: fromNs, to_ns: toNs, events })),
  };
}
