/** Formats the last line of a run that does not meet a gate: the unmet gates, and advice. */

import type { ServiceFigures } from './figures.ts';
import { formatProposals, quoteForShell } from './map_option.ts';
import type { RunResult } from './result.ts';
import { type GateResult, isOnlyNoisy, PARTIAL_SHARE } from './verdict.ts';

/** Returns undefined if every gate is met. */
export function formatClosingLine(result: RunResult): string | undefined {
  const unmet = result.gates.filter(({ met }) => !met);
  if (unmet.length === 0) return undefined;
  const required = unmet.find(isRequirement);
  const others = unmet.filter((gate) => gate !== required).map(({ gate, detail }) => `${gate} is not met: ${detail}`);
  const parts = required ? [...others, formatUnmetRequirement(result, required)] : others;
  return `FAILED: ${parts.join('; ')}`;
}

export function isRequirement({ gate }: GateResult): boolean {
  return gate.startsWith('--require');
}

function formatUnmetRequirement(result: RunResult, { gate }: GateResult): string {
  const { verdict, ended, gates } = result;
  const asked = gate.split(' ')[1];
  const isExitJudged = gates.some(({ gate }) => gate.startsWith('--expect-exit'));
  const hasFailed = ended !== null && ended.code !== 0 && !isExitJudged;
  const command = hasFailed ? `the command ended with ${ended.code}, ${describeEnding(result)}` : '';
  return `${command}the run is ${verdict}, and --require asks for ${asked}: ${advise(result, asked === 'replayed')}`;
}

/** Says whether waits of the incident may have ended the command early, before it made all calls. */
function describeEnding({ figures }: RunResult): string {
  if (figures && figures.delivered_ns > 0) return 'perhaps because of a wait of the incident; ';
  return 'which says nothing about the incident, as ';
}

/** Returns advice for a run that is not faithful enough. */
function advise(result: RunResult, isReplayedRequired: boolean): string {
  const { verdict, figures, proposed_maps: proposed } = result;
  if (isReplayedRequired && isOnlyNoisy(result))
    return 'run it on a machine with less other work, or pass --require partial';
  if (figures && figures.planned_events > 0 && figures.considered_events === 0)
    return 'pass a shorter --threshold than the waits of the incident';
  if (proposed.fits) return `pass ${formatProposals(proposed)}`;
  if (proposed.options.length > 0) return `choose one: ${formatProposals(proposed)}`;
  const service = findOnlyService(figures?.services ?? []);
  if (service !== undefined)
    return `pass --service ${quoteForShell(service)} if the command is only that service, whose calls it made`;
  const exitCodeOnly =
    isReplayedRequired && verdict === 'partial'
      ? 'or pass --require partial'
      : 'or pass --require none to judge the command by its exit code alone';
  if (figures && figures.how.no_stream > 0)
    return `pass --map HERE=THERE if files of the incident lie elsewhere here, ${exitCodeOnly}`;
  return `run what made the recorded calls, with the same files, ${exitCodeOnly}`;
}

/**
 * Returns the service if it is the only one with delivered time, and if at least PARTIAL_SHARE of its planned time was
 * delivered. Otherwise, and for an incident with a single service, returns undefined.
 */
function findOnlyService(services: readonly ServiceFigures[]): string | undefined {
  const made = services.filter(({ delivered_ns }) => delivered_ns > 0);
  const [only] = made;
  if (!only || made.length > 1 || services.length < 2) return undefined;
  return only.delivered_ns >= only.planned_ns * PARTIAL_SHARE ? only.service : undefined;
}
