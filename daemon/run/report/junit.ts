/**
 * Renders a run as JUnit XML, a format that every CI system can show. There is one test case for the command, one for
 * the replay, and one for each gate. An incomplete replay is a failure if `--require` is not met, and otherwise a
 * skipped test case. If the replay was impossible or the helper failed, the test case is an error. Neither skipped nor
 * error counts as passed. If `--require` is met and only the noise of the machine kept the replay from being complete,
 * the test case passes with a warning.
 */
import { escapeControls } from '../../../agent/output/printable.ts';
import { isRequirement } from './closing_line.ts';
import { escapeMarkup } from './markup.ts';
import type { RunResult } from './result.ts';
import { formatShortDuration, formatSummaryLines } from './summary.ts';
import { isOnlyNoisy } from './verdict.ts';

interface TestCase {
  name: string;
  seconds: number;
  outcome?: {
    kind: 'failure' | 'error' | 'skipped';
    message: string;
    /** Further lines of the failure's text, below `message`. */
    details?: string[];
  };
  warning?: string;
}

export function buildJunitReport(result: RunResult): string {
  const cases = [buildCommandCase(result), buildReplayCase(result), ...buildGateCases(result)];
  const count = (kind: string) => cases.filter(({ outcome }) => outcome?.kind === kind).length;
  const seconds = (result.ended?.duration_ns ?? 0) / 1e9;
  const counts = `tests="${cases.length}" failures="${count('failure')}" errors="${count('error')}"`;
  const name = escapeMarkup(`kreplay run ${result.settings.transaction_id}`);
  const stamp = result.ended ? ` timestamp="${result.ended.started_at.slice(0, 19)}"` : '';
  return `${[
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="kreplay run" ${counts} time="${seconds.toFixed(3)}">`,
    `  <testsuite name="${name}" ${counts} skipped="${count('skipped')}" time="${seconds.toFixed(3)}"${stamp}>`,
    '    <properties>',
    ...listProperties(result).map(([key, value]) => `      <property name="${key}" value="${escapeMarkup(value)}"/>`),
    '    </properties>',
    ...cases.flatMap(formatCase),
    `    <system-out>${escapeMarkup(formatSummaryLines(result).join('\n'))}</system-out>`,
    '  </testsuite>',
    '</testsuites>',
  ].join('\n')}\n`;
}

function listProperties(result: RunResult): [string, string][] {
  const { verdict, settings } = result;
  const warning = findWarning(result);
  return [
    ['verdict', verdict],
    ['seed', `${settings.seed}`],
    ['mode', settings.mode],
    ['command', settings.command.join(' ')],
    ...(warning === undefined ? [] : [['warning', warning] as [string, string]]),
  ];
}

/**
 * Returns the warning for a run that meets its requirements, but only on a machine that is too noisy; otherwise
 * undefined.
 */
function findWarning(result: RunResult): string | undefined {
  const isAllowed = result.gates.every((gate) => gate.met || !isRequirement(gate));
  return isAllowed && isOnlyNoisy(result) ? formatVerdict(result) : undefined;
}

function formatVerdict({ verdict, reasons }: RunResult): string {
  return [verdict, reasons.join('; ')].filter(Boolean).join(': ');
}

function buildCommandCase(result: RunResult): TestCase {
  const { ended, settings, gates, reasons, verdict } = result;
  const name = `the command: ${settings.command.join(' ')}`;
  if (!ended)
    return { name, seconds: 0, outcome: { kind: 'skipped', message: `no exit code is known: ${reasons.join('; ')}` } };
  const seconds = ended.duration_ns / 1e9;
  const isJudgedByGate = gates.some(({ gate }) => gate.startsWith('--expect-exit'));
  if (ended.code === 0 || isJudgedByGate) return { name, seconds };
  const message = `it ended with ${ended.code}; the run is ${verdict}`;
  return { name, seconds, outcome: { kind: 'failure', message, details: formatDetails(result) } };
}

function buildReplayCase(result: RunResult): TestCase {
  const { verdict, gates } = result;
  const name = 'the incident is replayed';
  if (verdict === 'replayed') return { name, seconds: 0 };
  const warning = findWarning(result);
  if (warning !== undefined) return { name, seconds: 0, warning };
  const message = formatVerdict(result);
  if (verdict === 'unsupported' || verdict === 'failed')
    return { name, seconds: 0, outcome: { kind: 'error', message } };
  if (gates.every((gate) => gate.met || !isRequirement(gate)))
    return { name, seconds: 0, outcome: { kind: 'skipped', message } };
  return { name, seconds: 0, outcome: { kind: 'failure', message, details: formatDetails(result) } };
}

function buildGateCases({ gates }: RunResult): TestCase[] {
  return gates.map(({ gate, met, detail }) => ({
    name: gate,
    seconds: 0,
    ...(!met && { outcome: { kind: 'failure', message: detail } }),
  }));
}

function formatCase({ name, seconds, outcome, warning }: TestCase): string[] {
  const open = `    <testcase classname="kreplay.run" name="${escapeMarkup(name)}" time="${seconds.toFixed(3)}"`;
  if (warning !== undefined)
    return [`${open}>`, `      <system-out>${escapeMarkup(`warning: ${warning}`)}</system-out>`, '    </testcase>'];
  if (!outcome) return [`${open}/>`];
  const { kind, message, details = [] } = outcome;
  const text = [message, ...details].join('\n');
  const type = kind === 'skipped' ? '' : ` type="kreplay.${kind}"`;
  return [
    `${open}>`,
    `      <${kind} message="${escapeMarkup(message)}"${type}>${escapeMarkup(text)}</${kind}>`,
    '    </testcase>',
  ];
}

/** Formats the calls on which the command waited longest, and the last lines of its outputs. */
function formatDetails({ figures, last_lines }: RunResult): string[] {
  const felt = figures?.felt ?? [];
  const calls = felt.map(({ took_ns, op, path, run_offset_ns }) => {
    const file = path === '' ? '' : ` ${path}`;
    return `  ${formatShortDuration(took_ns)} ${op}${file}, ${formatShortDuration(run_offset_ns)} after the start`;
  });
  const texts = last_lines.flatMap(({ output, lines }) => [
    `The last lines of the command's ${output}:`,
    ...lines.map((line) => `  ${line}`),
  ]);
  return [...(calls.length > 0 ? ['The slowest calls that the command felt:', ...calls] : []), ...texts].map(
    escapeControls,
  );
}
