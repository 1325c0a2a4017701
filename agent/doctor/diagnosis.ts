/**
 * Checks everything that a host needs for recording. A failed check comes before the checks that fail because of it.
 */
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { release } from 'node:os';
import { join } from 'node:path';
import { BpfError, features } from 'libbpf-ts';
import { type ClockState, clockState } from 'libbpf-ts/kernel';
import { AGENT_SOCKET, type AgentReport } from '../../bpf/schema/agent_report.ts';
import { type CgroupSource, createCgroups, findCgroups } from '../attribution/cgroups.ts';
import { type AddonProblem, findAddonProblem } from '../capture/addon.ts';
import { CAPTURE_CAPABILITIES, findMissingCapabilities } from '../capture/capabilities.ts';
import { type LayerState, listLayerStates } from '../capture/layers.ts';
import { BTF, ROOT_PID_NAMESPACE, readShiftedClocks } from '../capture/probes.ts';
import { findMissingFeatures, findWrongTracepoints } from '../capture/requirements.ts';
import { REQUIRED_TRACEPOINTS } from '../capture/tracepoints.ts';
import { formatBytes, formatThreeDigits } from '../output/amounts.ts';
import { AgentError, UnfitHostError } from '../process/errors.ts';
import type { RetentionFlags } from '../retention_options.ts';
import type { Check } from './check.ts';
import { diagnoseDisk } from './disk.ts';
import type { MapsTaken } from './map_fds.ts';
import { diagnoseShipping, type ShipOptions } from './ship_checks.ts';
import { type Sample, type Trial, tryCapture } from './trial.ts';

export interface Diagnosis {
  /** Whether this host can be recorded. */
  ok: boolean;
  /** Whether an agent records this host into the data folder at present. */
  recording: boolean;
  checks: Check[];
  cgroups: CgroupSource;
  layers: LayerState[];
}

export interface DiagnosisOptions {
  dataFolder: string;
  ringBytes: number;
  sampleMs: number;
  retention: RetentionFlags;
  /** Settings of the shipper; undefined if this host ships nothing. */
  ship: ShipOptions | undefined;
}

export async function diagnose(options: DiagnosisOptions): Promise<Diagnosis> {
  const { dataFolder, ringBytes, sampleMs, retention, ship } = options;
  const cgroups = findCgroups();
  const agent = await askAgent(dataFolder);
  const addonProblem = findAddonProblem();
  const trial = await captureOutcome(() =>
    tryCapture(cgroups.hierarchy, { ringBytes, sampleMs: agent ? 0 : sampleMs }),
  );
  const ring = agent ? diagnoseAgentRing(agent, Date.now()) : diagnoseTrialRing(trial);
  const rate = ring.facts?.events_per_second;
  const room = diagnoseDisk({ dataFolder, retention, eventsPerSecond: typeof rate === 'number' ? rate : undefined });
  const { bytes_per_day: perDay } = room.facts ?? {};
  const bytesPerDay = typeof perDay === 'number' ? perDay : undefined;
  const checks = [
    ...diagnoseKernel(addonProblem),
    diagnosePrivileges(),
    diagnoseLockdown(),
    diagnoseSysctls(),
    diagnosePrograms(trial),
    diagnoseCgroups(cgroups),
    diagnoseMemory(trial, cgroups),
    ring,
    room,
    addonProblem ? buildUnknownCheck('clock', addonProblem) : diagnoseClock(),
    diagnoseReplayClock(),
    ...(ship ? await diagnoseShipping(ship, { dataFolder, retention, bytesPerDay }) : []),
  ];
  const layers = existsSync(BTF) && !addonProblem ? listLayerStates([], cgroups.hierarchy) : [];
  return {
    ok: checks.every(({ state }) => state !== 'failed'),
    recording: agent !== undefined,
    checks,
    cgroups,
    layers,
  };
}

type TrialOutcome = Trial | AgentError;

async function captureOutcome(run: () => Promise<Trial>): Promise<TrialOutcome> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof AgentError) return error;
    throw error;
  }
}

function diagnosePrograms(trial: TrialOutcome): Check {
  const name = 'programs';
  if (trial instanceof UnfitHostError) return { name, state: 'failed', text: trial.lack };
  if (trial instanceof AgentError) return { name, state: 'failed', text: trial.message };
  return { name, state: 'ok', text: `${trial.attached.length} of them loaded and attached` };
}

function diagnoseCgroups({ hierarchy, root }: CgroupSource): Check {
  const text = `${hierarchy.replace('_', ', ')}, ${root}`;
  return { name: 'cgroups', state: 'ok', text, facts: { hierarchy, root } };
}

function diagnoseMemory(trial: TrialOutcome, cgroups: CgroupSource): Check {
  if (trial instanceof AgentError)
    return diagnoseMapMemory({ maps: undefined, isCharged: true, limitBytes: undefined, mayRaiseLimit: false });
  const isCharged = features().memcgAccounting;
  return diagnoseMapMemory({ maps: trial.maps, isCharged, ...readMemoryLimit(isCharged, cgroups) });
}

/** Checks whether the times of this host's events can be compared with another host's. */
export function diagnoseClock({ synchronized, estimatedErrorUs, maxErrorUs }: ClockState = clockState()): Check {
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

function diagnoseTrialRing(trial: TrialOutcome): Check {
  if (trial instanceof AgentError) return { name: 'event ring', state: 'unknown', text: 'the programs are not loaded' };
  if (trial.sample.seconds === 0) return { name: 'event ring', state: 'unknown', text: 'not measured: --sample 0' };
  return diagnoseSampledRing(trial.sample, trial);
}

/* Checks whether the maps fit into the kernel memory that this process may use. */

interface MapMemory {
  /** Memory that the maps take; undefined if it is unknown. */
  maps: MapsTaken | undefined;
  /** Whether the maps are charged to the cgroup (Linux 5.11 and later). Otherwise, RLIMIT_MEMLOCK limits them. */
  isCharged: boolean;
  /** The memory limit; undefined if there is none. */
  limitBytes: number | undefined;
  mayRaiseLimit: boolean;
}

/** Memory that an agent takes in addition to its maps. */
const AGENT_BYTES = 128 << 20;

export function diagnoseMapMemory({ maps, isCharged, limitBytes, mayRaiseLimit }: MapMemory): Check {
  const name = 'map memory';
  if (maps === undefined) return { name, state: 'unknown', text: 'the programs are not loaded' };
  const { bytes: mapBytes, isAll } = maps;
  const facts = { map_bytes: mapBytes, ...(limitBytes !== undefined && { limit_bytes: limitBytes }) };
  const text = `the maps take ${isAll ? '' : 'at least '}${formatBytes(mapBytes)} of kernel memory`;
  if (isCharged) {
    const limit = limitBytes === undefined ? 'which has no limit' : `whose limit is ${formatBytes(limitBytes)}`;
    const fits = limitBytes === undefined || mapBytes + AGENT_BYTES <= limitBytes;
    const charged = `${text}, charged to the cgroup of the agent, ${limit}`;
    if (fits) return { name, state: 'ok', text: charged, facts };
    const wanted = formatBytes(mapBytes + AGENT_BYTES);
    return {
      name,
      state: 'warning',
      text: charged,
      advice: `raise it to ${wanted}, or give a smaller --ring-size`,
      facts,
    };
  }
  if (limitBytes === undefined || mayRaiseLimit) return { name, state: 'ok', text, facts };
  const locked = `${text}, and RLIMIT_MEMLOCK is ${formatBytes(limitBytes)}`;
  if (mapBytes <= limitBytes) return { name, state: 'ok', text: locked, facts };
  return { name, state: 'failed', text: locked, advice: 'set LimitMEMLOCK=infinity, or ulimit -l unlimited', facts };
}

export function readMemoryLimit(
  isCharged: boolean,
  cgroups: CgroupSource,
): Pick<MapMemory, 'limitBytes' | 'mayRaiseLimit'> {
  if (isCharged) return { limitBytes: readCgroupLimit(cgroups), mayRaiseLimit: false };
  const soft = /^Max locked memory\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
  return {
    limitBytes: soft === undefined || soft === 'unlimited' ? undefined : Number(soft),
    mayRaiseLimit: findMissingCapabilities(['CAP_SYS_RESOURCE']).length === 0,
  };
}

/**
 * A limit of at least this size means that there is no limit: v1 then reports a number larger than the memory of any
 * machine. The effective limit of a cgroup is the smallest among its own limit and the limits of its ancestors.
 */
const NO_LIMIT_FROM = 2 ** 60;

function readCgroupLimit(cgroups: CgroupSource): number | undefined {
  const file = cgroups.hierarchy === 'v2' ? 'memory.max' : 'memory.limit_in_bytes';
  const parts = (createCgroups(cgroups).readProcessPath(process.pid) ?? '/').split('/').filter((part) => part !== '');
  const limits = [0, ...parts.map((_, i) => i + 1)].map((depth) =>
    readNumberFile(join(cgroups.root, ...parts.slice(0, depth), file)),
  );
  const smallest = Math.min(...limits);
  return smallest < NO_LIMIT_FROM ? smallest : undefined;
}

function readNumberFile(path: string): number {
  try {
    const value = Number(readFileSync(path, 'utf8'));
    return Number.isNaN(value) ? Number.POSITIVE_INFINITY : value; // NaN: the file contains `max`.
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/* Checks whether a daemon's replay thread has priority over other programs when the CPUs are busy. */

/** The name that native/clock gives its thread. */
const THREAD_NAME = 'kreplay-clock';
/** Names that a daemon's main thread may have; the first is set by Node.js. */
const MAIN_NAMES = ['MainThread', 'node', 'kreplay'];

interface ClockThread {
  pid: number;
  /** Content of the thread's `stat` file in /proc. */
  stat: string;
}

const name = 'replay clock';

export function diagnoseReplayClock(threads = findClockThreads()): Check {
  if (threads.length === 0) return { name, state: 'ok', text: 'no daemon is running' };
  const found = threads.map(({ pid, stat }) => ({ pid, ...parsePriority(stat) }));
  const facts = { daemons: found.map(({ pid, text }) => `${pid}: ${text}`) };
  const ordinary = found.find(({ isRaised }) => !isRaised);
  if (!ordinary) {
    return { name, state: 'ok', text: found.map(({ pid, text }) => `daemon ${pid} has ${text}`).join(', '), facts };
  }
  return {
    name,
    state: 'warning',
    text: `daemon ${ordinary.pid} has ${ordinary.text}: events of a replay are late while CPUs are busy`,
    advice: 'give its service LimitRTPRIO=1 and RestrictRealtime=no, and restart it',
    facts,
  };
}

/** Indices of fields in proc_pid_stat(5), counted from the state, which follows the command name. */
const NICE_FIELD = 16;
const POLICY_FIELD = 38;
const SCHED_FIFO = 1;

function parsePriority(stat: string): { isRaised: boolean; text: string } {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (Number(fields[POLICY_FIELD]) === SCHED_FIFO) return { isRaised: true, text: 'a real-time priority' };
  const nice = Number(fields[NICE_FIELD]);
  return nice < 0 ? { isRaised: true, text: `a nice value of ${nice}` } : { isRaised: false, text: 'no priority' };
}

function findClockThreads(): ClockThread[] {
  const found: ClockThread[] = [];
  for (const pid of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    if (!MAIN_NAMES.includes(readProcessName(`/proc/${pid}`))) continue;
    for (const tid of listFolderNames(`/proc/${pid}/task`)) {
      const thread = `/proc/${pid}/task/${tid}`;
      if (readProcessName(thread) !== THREAD_NAME) continue;
      const stat = readFileIfPresent(`${thread}/stat`);
      if (stat !== '') found.push({ pid: Number(pid), stat });
    }
  }
  return found;
}

const readProcessName = (folder: string) => readFileIfPresent(`${folder}/comm`).trim();

/** Reads a file. Returns an empty text if that fails, for example because the process has ended. */
function readFileIfPresent(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function listFolderNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/* Checks the size of the ring, from a sample of this host's events or from the report of a running agent. */

const MEBIBYTE = 1 << 20;
/** Time for which a busy CPU or a slow disk may keep the agent from draining the ring. */
const STALL_SECONDS = 2;
/** Maximum share of a running agent's ring that may have been in use. The rest is a reserve for larger bursts. */
const FULL_SHARE = 0.5;

/** Returns the value for `--ring-size`: the smallest power of two, in MiB, that has room for `bytes`. */
function computeRingMebibytes(bytes: number): number {
  return 2 ** Math.max(0, Math.ceil(Math.log2(bytes / MEBIBYTE)));
}

export function diagnoseSampledRing(
  { events, bytes, seconds, peakBytesPerSecond }: Sample,
  { ringCount, ringBytes }: Pick<Trial, 'ringCount' | 'ringBytes'>,
): Check {
  const rate = events / seconds;
  const holds = ringBytes / Math.max(peakBytesPerSecond, 1);
  const enough = holds >= STALL_SECONDS;
  const text =
    `${formatThreeDigits(rate)} events/s (${formatBytes(bytes / seconds)}/s) in ${formatThreeDigits(seconds)} s, ` +
    `at most ${formatBytes(peakBytesPerSecond)}/s${ringCount > 1 ? ' for one ring' : ''}: ` +
    `${ringBytes / MEBIBYTE} MiB hold ` +
    (holds > 60 ? 'more than a minute of that' : `${formatThreeDigits(holds)} s of that`);
  const advised = computeRingMebibytes(peakBytesPerSecond * STALL_SECONDS * ringCount);
  return {
    name: 'event ring',
    state: enough ? 'ok' : 'warning',
    text,
    ...(!enough && { advice: `--ring-size ${advised}, for ${STALL_SECONDS} s of it` }),
    facts: { events_per_second: rate, peak_bytes_per_second: peakBytesPerSecond, ring_bytes: ringBytes },
  };
}

export function diagnoseAgentRing({ ring, recorded, lost, start_time_seconds }: AgentReport, nowMs: number): Check {
  const seconds = Math.max(nowMs / 1e3 - start_time_seconds, 1);
  const rate = Object.values(recorded).reduce((sum, count) => sum + count, 0) / seconds;
  const lostInRing = lost
    .filter(({ cause }) => cause === 'ring_full' || cause === 'shed')
    .reduce((sum, { count }) => sum + count, 0);
  const share = ring.peak_bytes / ring.size_bytes;
  const enough = share < FULL_SHARE && lostInRing === 0;
  const size = ring.size_bytes / MEBIBYTE;
  return {
    name: 'event ring',
    state: enough ? 'ok' : 'warning',
    text:
      `the agent that records here has taken ${formatThreeDigits(rate)} events/s since its start; ` +
      `${ring.count > 1 ? `the fullest of its ${ring.count} rings` : 'its ring'} of ${size} MiB was ${Math.round(share * 100)} % full at most in the last minute, ` +
      `and lost ${lostInRing} since its start`,
    ...(!enough && { advice: `start it with --ring-size ${computeRingMebibytes(2 * ring.count * ring.size_bytes)}` }),
    facts: { events_per_second: rate, ring_bytes: ring.size_bytes, peak_bytes: ring.peak_bytes, lost: lostInRing },
  };
}

/* Asks the agent that records into a folder for its report. */

const ANSWER_TIMEOUT_MS = 1000;
const ANSWER_BYTES_MAX = 1 << 16;

/** Asks the agent for its report; returns undefined if there is no agent, or if the agent does not answer. */
async function askAgent(dataFolder: string): Promise<AgentReport | undefined> {
  const socket = connect(join(dataFolder, AGENT_SOCKET));
  const timer = setTimeout(() => socket.destroy(new Error('no answer')), ANSWER_TIMEOUT_MS);
  try {
    let text = '';
    for await (const chunk of socket.setEncoding('utf8')) {
      text += chunk;
      if (text.length > ANSWER_BYTES_MAX) return undefined;
    }
    return JSON.parse(text) as AgentReport;
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}

/* Checks which kernel this is, and whether it has the features that the programs need. */

function diagnoseKernel(addonProblem: AddonProblem | undefined): Check[] {
  const hasBtf = existsSync(BTF);
  const ofPrograms = addonProblem
    ? ['features', 'tracepoints'].map((name) => buildUnknownCheck(name, addonProblem))
    : [diagnoseBpfFeatures(hasBtf), diagnoseTracepoints(hasBtf)];
  return [
    diagnoseMachine(),
    diagnosePidNamespace(),
    diagnoseTimeNamespace(),
    diagnoseLibraries(addonProblem),
    diagnoseBtf(hasBtf),
    ...ofPrograms,
  ];
}

function diagnoseLibraries(problem: AddonProblem | undefined): Check {
  const name = 'libraries';
  if (!problem) return { name, state: 'ok', text: 'all that are needed can be loaded' };
  const { missing, text, advice } = problem;
  return { name, state: 'failed', text, advice, facts: { missing } };
}

function buildUnknownCheck(name: string, { missing }: AddonProblem): Check {
  return { name, state: 'unknown', text: `unknown without ${missing}` };
}

function diagnoseMachine(): Check {
  const isKnown = process.platform === 'linux' && process.arch === 'x64';
  return {
    name: 'kernel',
    state: isKnown ? 'ok' : 'failed',
    text: `${release()}, ${process.arch}`,
    ...(!isKnown && { advice: 'kreplay records Linux on x86-64' }),
  };
}

function diagnosePidNamespace(): Check {
  const isRoot = readlinkSync('/proc/self/ns/pid') === ROOT_PID_NAMESPACE;
  return {
    name: 'pid namespace',
    state: isRoot ? 'ok' : 'failed',
    text: isRoot ? "the host's" : 'one of its own: processes have other numbers here than the kernel reports',
    ...(!isRoot && { advice: "run it in the host's: docker run --pid=host" }),
  };
}

function diagnoseTimeNamespace(): Check {
  const clocks = readShiftedClocks();
  const isShifted = clocks.length > 0;
  return {
    name: 'time namespace',
    state: isShifted ? 'failed' : 'ok',
    text: isShifted ? `one of its own: ${clocks.join(' and ')} differ from the kernel's` : "the host's clocks",
    ...(isShifted && { advice: "run it with the host's clocks: without unshare --time" }),
  };
}

function diagnoseBtf(hasBtf: boolean): Check {
  return {
    name: 'BTF',
    state: hasBtf ? 'ok' : 'failed',
    text: hasBtf ? BTF : `${BTF} is missing`,
    ...(!hasBtf && { advice: 'boot a kernel built with CONFIG_DEBUG_INFO_BTF=y' }),
  };
}

const NO_BTF = 'unknown without BTF';
const OTHER_KERNEL = 'boot Linux 5.15 or later';

function diagnoseBpfFeatures(hasBtf: boolean): Check {
  const name = 'features';
  if (!hasBtf) return { name, state: 'unknown', text: NO_BTF };
  if (findMissingCapabilities(CAPTURE_CAPABILITIES).length > 0) {
    return { name, state: 'unknown', text: `unknown without ${CAPTURE_CAPABILITIES.join(' and ')}` };
  }
  try {
    const missing = findMissingFeatures();
    if (missing.length === 0) return { name, state: 'ok', text: 'every map, helper and instruction is there' };
    const text = `missing: ${missing.join(', ')}`;
    return { name, state: 'failed', text, advice: OTHER_KERNEL, facts: { missing } };
  } catch (error) {
    if (!(error instanceof BpfError)) throw error;
    return { name, state: 'unknown', text: `unknown: the kernel returned ${error.code}` };
  }
}

function diagnoseTracepoints(hasBtf: boolean): Check {
  const name = 'tracepoints';
  if (!hasBtf) return { name, state: 'unknown', text: NO_BTF };
  const wrong = findWrongTracepoints();
  const count = REQUIRED_TRACEPOINTS.length;
  if (wrong.length === 0)
    return { name, state: 'ok', text: `all ${count} are there, with the arguments that are read` };
  return { name, state: 'failed', text: wrong.join(', '), advice: OTHER_KERNEL, facts: { wrong } };
}

/* Checks the privileges of this process, and other restrictions that may prevent recording. */

function diagnosePrivileges(): Check {
  const missing = findMissingCapabilities(CAPTURE_CAPABILITIES);
  const name = 'privileges';
  if (missing.length === 0) return { name, state: 'ok', text: CAPTURE_CAPABILITIES.join(', ') };
  return {
    name,
    state: 'failed',
    text: `${missing.join(' and ')} missing`,
    advice: `run as root, or give it ${CAPTURE_CAPABILITIES.join(' and ')}`,
    facts: { missing },
  };
}

const LOCKDOWN = '/sys/kernel/security/lockdown';

/**
 * Checks the lockdown level: kernel_lockdown(7). Only the level `confidentiality` prevents BPF programs from reading
 * kernel memory.
 */
export function diagnoseLockdown(path = LOCKDOWN): Check {
  const name = 'lockdown';
  const level = /\[(\w+)\]/.exec(readIfThere(path) ?? '')?.[1];
  if (level === undefined) return { name, state: 'ok', text: `unknown: there is no ${path}` };
  if (level !== 'confidentiality') return { name, state: 'ok', text: level };
  return {
    name,
    state: 'failed',
    text: 'confidentiality: no program may read kernel memory',
    advice: 'boot with lockdown=integrity, or none',
  };
}

/** Sysctls that restrict only processes without capabilities, and therefore not the agent. */
const SYSCTLS = ['kernel.unprivileged_bpf_disabled', 'kernel.perf_event_paranoid'] as const;

function diagnoseSysctls(): Check {
  const values = SYSCTLS.map((name) => {
    const value = readIfThere(`/proc/sys/${name.replaceAll('.', '/')}`)?.trim();
    return `${name}=${value ?? 'none'}`;
  });
  return { name: 'sysctl', state: 'ok', text: `${values.join(', ')}: no hindrance, whatever they are` };
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
