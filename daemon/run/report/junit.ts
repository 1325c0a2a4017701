/**
 * Renders a run as JUnit XML, which every CI shows: one test case for the command, one for the replay, and one for each
 * gate. The replay's test case is skipped if the replay is incomplete and was not required to be complete, and it is an
 * error if the replay could not be made; neither is a pass.
 */
import { escapeMarkup } from './markup.ts';
import type { RunResult } from './result.ts';
import { formatSummaryLines } from './summary.ts';

interface TestCase {
  name: string;
  seconds: number;
  outcome?: { kind: 'failure' | 'error' | 'skipped'; message: string };
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

function listProperties({ verdict, settings }: RunResult): [string, string][] {
  return [
    ['verdict', verdict],
    ['seed', `${settings.seed}`],
    ['mode', settings.mode],
    ['command', settings.command.join(' ')],
  ];
}

function buildCommandCase({ ended, settings, gates, reasons }: RunResult): TestCase {
  const name = `the command: ${settings.command.join(' ')}`;
  if (!ended) return { name, seconds: 0, outcome: { kind: 'skipped', message: `not started: ${reasons.join('; ')}` } };
  const seconds = ended.duration_ns / 1e9;
  const isJudgedByGate = gates.some(({ gate }) => gate.startsWith('--expect-exit'));
  if (ended.code === 0 || isJudgedByGate) return { name, seconds };
  return { name, seconds, outcome: { kind: 'failure', message: `it ended with ${ended.code}` } };
}

function buildReplayCase({ verdict, reasons, gates }: RunResult): TestCase {
  const name = 'the incident is replayed';
  if (verdict === 'replayed') return { name, seconds: 0 };
  const message = `${verdict}: ${reasons.join('; ')}`;
  if (verdict === 'unsupported' || verdict === 'failed')
    return { name, seconds: 0, outcome: { kind: 'error', message } };
  const required = gates.find(({ gate }) => gate.startsWith('--require'));
  return { name, seconds: 0, outcome: { kind: required && !required.met ? 'failure' : 'skipped', message } };
}

function buildGateCases({ gates }: RunResult): TestCase[] {
  return gates.map(({ gate, met, detail }) => ({
    name: gate,
    seconds: 0,
    ...(!met && { outcome: { kind: 'failure', message: detail } }),
  }));
}

function formatCase({ name, seconds, outcome }: TestCase): string[] {
  const open = `    <testcase classname="kreplay.run" name="${escapeMarkup(name)}" time="${seconds.toFixed(3)}"`;
  if (!outcome) return [`${open}/>`];
  const { kind, message } = outcome;
  const type = kind === 'skipped' ? '' : ` type="kreplay.${kind}"`;
  return [
    `${open}>`,
    `      <${kind} message="${escapeMarkup(message)}"${type}>${escapeMarkup(message)}</${kind}>`,
    '    </testcase>',
  ];
}
