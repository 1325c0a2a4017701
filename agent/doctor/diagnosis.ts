/** Checks everything that recording needs of a host, ordered so that a failure comes before those that it causes. */
import { existsSync } from 'node:fs';
import { type ClockState, clockState, features } from 'libbpf-ts';
import { type CgroupSource, findCgroups } from '../attribution/cgroups.ts';
import { type LayerState, layerStates } from '../capture/layers.ts';
import { BTF } from '../capture/probes.ts';
import { AgentError } from '../process/errors.ts';
import type { RetentionFlags } from '../retention_options.ts';
import type { Check } from './check.ts';
import { disk } from './disk.ts';
import { kernelChecks } from './kernel.ts';
import { mapMemory, memoryLimit } from './memory.ts';
import { replayClock } from './replay_clock.ts';
import { ringBySample, ringOfAgent } from './ring.ts';
import { askAgent } from './running_agent.ts';
import { lockdown, privileges, sysctls } from './security.ts';
import { type ShipOptions, shipChecks } from './ship_checks.ts';
import { type Trial, tryCapture } from './trial.ts';

export interface Diagnosis {
  /** Whether this host can be recorded. */
  ok: boolean;
  checks: Check[];
  cgroups: CgroupSource;
  layers: LayerState[];
}

export interface DiagnosisOptions {
  dataFolder: string;
  ringBytes: number;
  sampleMs: number;
  retention: RetentionFlags;
  /** Undefined if this host ships nothing. */
  ship: ShipOptions | undefined;
}

export async function diagnose(options: DiagnosisOptions): Promise<Diagnosis> {
  const { dataFolder, ringBytes, sampleMs, retention, ship } = options;
  const cgroups = findCgroups();
  const agent = await askAgent(dataFolder);
  const trial = await outcomeOf(() => tryCapture(cgroups.hierarchy, { ringBytes, sampleMs: agent ? 0 : sampleMs }));
  const ring = agent ? ringOfAgent(agent, Date.now()) : ringOfTrial(trial);
  const rate = ring.facts?.events_per_second;
  const room = disk({ dataFolder, retention, eventsPerSecond: typeof rate === 'number' ? rate : undefined });
  const { bytes_per_day: perDay } = room.facts ?? {};
  const bytesPerDay = typeof perDay === 'number' ? perDay : undefined;
  const checks = [
    ...kernelChecks(),
    privileges(),
    lockdown(),
    sysctls(),
    programs(trial),
    cgroupCheck(cgroups),
    memory(trial, cgroups),
    ring,
    room,
    clock(),
    replayClock(),
    ...(ship ? await shipChecks(ship, { dataFolder, retention, bytesPerDay }) : []),
  ];
  const layers = existsSync(BTF) ? layerStates([], cgroups.hierarchy) : [];
  return { ok: checks.every(({ state }) => state !== 'failed'), checks, cgroups, layers };
}

type Outcome = Trial | AgentError;

async function outcomeOf(run: () => Promise<Trial>): Promise<Outcome> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof AgentError) return error;
    throw error;
  }
}

function programs(trial: Outcome): Check {
  const name = 'programs';
  if (trial instanceof AgentError) return { name, state: 'failed', text: trial.message };
  return { name, state: 'ok', text: `${trial.attached.length} of them loaded and attached` };
}

function cgroupCheck({ hierarchy, root }: CgroupSource): Check {
  const text = `${hierarchy.replace('_', ', ')}, ${root}`;
  return { name: 'cgroups', state: 'ok', text, facts: { hierarchy, root } };
}

function memory(trial: Outcome, cgroups: CgroupSource): Check {
  if (trial instanceof AgentError)
    return mapMemory({ maps: undefined, isCharged: true, limitBytes: undefined, mayRaiseLimit: false });
  const isCharged = features().memcgAccounting;
  return mapMemory({ maps: trial.maps, isCharged, ...memoryLimit(isCharged, cgroups) });
}

/** Checks whether the times of this host's events can be compared with another host's. */
export function clock({ synchronized, estimatedErrorUs, maxErrorUs }: ClockState = clockState()): Check {
  const facts = { synchronized, estimated_error_us: estimatedErrorUs, max_error_us: maxErrorUs };
  const name = 'clock';
  if (!synchronized) {
    return {
      name,
      state: 'warning',
      text: 'nothing keeps the wall clock at the time of other hosts',
      advice: 'run chrony or systemd-timesyncd, or give the difference to `kreplay replay --clock-offset`',
      facts,
    };
  }
  const errors = `wrong by ${estimatedErrorUs / 1e3} ms as it believes, by ${maxErrorUs / 1e3} ms at most`;
  return { name, state: 'ok', text: `synchronised, ${errors}`, facts };
}

function ringOfTrial(trial: Outcome): Check {
  if (trial instanceof AgentError) return { name: 'event ring', state: 'unknown', text: 'the programs are not loaded' };
  if (trial.sample.seconds === 0) return { name: 'event ring', state: 'unknown', text: 'not measured: --sample 0' };
  return ringBySample(trial.sample, trial.ringBytes);
}
