/**
 * Runs in each kernel, as root: a recorder of a user with two capabilities records known workloads, and what it reports
 * about them over HTTP is compared with what they did. Prints a line of JSON for each check.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tracepointsArePreempted } from 'libbpf-ts/kernel';
import { AS_NOBODY, asNobodyWith, NOBODY } from '../unprivileged.ts';
import {
  checkEndToEnd,
  checkFailing,
  checkLabels,
  checkLabelsOf32Bits,
  checkOwners,
  checkRequests,
  checkSyncs,
  checkTimes,
  checkWriteBack,
  checkWrites,
  missingWhere,
  same,
} from './guest_checks.ts';
import { startPart } from './guest_part.ts';
import { queryOf } from './guest_query.ts';
import { KREPLAY, ORDER, runWorkloads } from './guest_workloads.ts';

const DATA = '/tmp/data';
const PORT = 7467;
const NOT_HERE = 77;

/** run.ts passes this argument. */
const [expected] = process.argv.slice(2) as ['recorded' | 'refused'];

interface Result {
  check: string;
  ok: boolean;
  text: string;
  /** Seconds since the previous result. */
  seconds: number;
}

let toldMs = 0;

function tell(check: string, ok: boolean, text: string): void {
  const nowMs = performance.now();
  const result: Result = { check, ok, text, seconds: (nowMs - toldMs) / 1000 };
  toldMs = nowMs;
  process.stdout.write(`${JSON.stringify(result)}\n`);
}

/** `work` returns what it saw, or throws. */
async function check(name: string, work: () => string | Promise<string>): Promise<void> {
  try {
    tell(name, true, await work());
  } catch (error) {
    tell(name, false, (error as Error).message);
  }
}

const EXTRA_MS = 20;

function checkRun(): string {
  const report = '/tmp/report.json';
  const incident = ['--bundle', join(DATA, 'recording.kreplay'), '--transaction', 'order-1'];
  const options = ['--extra-latency', `${EXTRA_MS}ms`, '--require', 'none', '--report', report];
  const startMs = performance.now();
  const ended = spawnSync(KREPLAY, ['run', ...incident, ...options, '--', ...ORDER], { encoding: 'utf8' });
  const elapsedMs = performance.now() - startMs;
  same('exit status', [ended.status, ended.status === 0 ? '' : ended.stderr], [0, '']);
  const { figures } = JSON.parse(readFileSync(report, 'utf8')) as { figures: { calls: number } };
  if (figures.calls < 3 || elapsedMs < 3 * EXTRA_MS) throw new Error(`${figures.calls} calls in ${elapsedMs} ms`);
  return `${figures.calls} calls were held`;
}

interface Diagnosis {
  ok: boolean;
  checks: { name: string; state: string; text: string; facts?: Record<string, unknown> }[];
  layers: { name: string; on: boolean; reason?: string }[];
}

function doctor(): [status: number | null, diagnosis: Diagnosis] {
  const args = ['doctor', '--output', 'json', '--sample', '0', '--data', '/tmp'];
  const { status, stdout, stderr } = spawnSync(KREPLAY, args, { encoding: 'utf8' });
  if (stderr !== '') throw new Error(stderr);
  return [status, JSON.parse(stdout) as Diagnosis];
}

const stateOf = ({ checks }: Diagnosis, name: string) => checks.find((each) => each.name === name)?.state;

function checkDoctor(): string {
  const [status, diagnosis] = doctor();
  same('exit status', [status, diagnosis.ok], [0, true]);
  same(
    'layers that are off',
    diagnosis.layers.filter(({ on }) => !on),
    [],
  );
  const memory = diagnosis.checks.find(({ name }) => name === 'map memory')!;
  if (memory.state !== 'ok') throw new Error(memory.text);
  return `as root every layer is on; ${memory.text}`;
}

const LOCKDOWN = '/sys/kernel/security/lockdown';

/** Locks the kernel down, which lasts until it ends. */
function checkLockdown(): string {
  writeFileSync(LOCKDOWN, 'confidentiality');
  const [status, diagnosis] = doctor();
  same('exit status', status, NOT_HERE);
  same('lockdown', [stateOf(diagnosis, 'lockdown'), stateOf(diagnosis, 'programs')], ['failed', 'failed']);
  return 'locked down, it is refused';
}

/** These settings limit what may be done without capabilities. */
const SYSCTLS = { unprivileged_bpf_disabled: '1', perf_event_paranoid: '3' };
/** If ext4 is a module, attaching to its journal's tracepoints takes CAP_SYS_ADMIN. */
const JOURNAL_MODULE = '/sys/kernel/btf/jbd2';

/** The agent has no capabilities but CAP_BPF and CAP_PERFMON, and the daemon has none. */
async function recorded(): Promise<void> {
  mkdirSync(DATA);
  chownSync(DATA, NOBODY, NOBODY);
  for (const [name, strictest] of Object.entries(SYSCTLS)) writeFileSync(`/proc/sys/kernel/${name}`, strictest);
  const missing = missingWhere(tracepointsArePreempted() === true);
  const agent = await startPart([...asNobodyWith('bpf', 'perfmon'), KREPLAY, 'agent', '--data', DATA], 'recording to');
  const journal = /journal off \((its tracepoints are in the module jbd2[^)]*)\)/.exec(agent.output())?.[1];
  await check('agent', () => {
    same('journal off', journal !== undefined, existsSync(JOURNAL_MODULE));
    return `with CAP_BPF and CAP_PERFMON${journal ? `; journal off: ${journal}` : ''}`;
  });
  const workloads = runWorkloads();
  tell('workloads', true, 'ran');
  const daemon = await startPart(
    [...AS_NOBODY, KREPLAY, 'daemon', '--data', DATA, '--listen', `127.0.0.1:${PORT}`],
    'serving',
  );
  const query = queryOf(PORT);
  await check('writes', () => checkWrites(query, missing));
  await check('times', () => checkTimes(query, workloads, missing));
  await check('syncs', () => checkSyncs(query, workloads, missing));
  await check('requests', () => checkRequests(query, missing));
  await check('failing reads', () => checkFailing(query, workloads, missing));
  await check('owners', () => checkOwners(query, missing));
  await check('labels', () => checkLabels(query, missing));
  await check('labels of 32-bit calls', () => checkLabelsOf32Bits(query, missing));
  await check('write-back', () => checkWriteBack(query));
  await check('end to end', () => checkEndToEnd(query, missing));
  const ids = async () => (await query('transaction_id=calls')).events.map(({ event_id }) => event_id);
  const before = await ids();
  agent.process.kill('SIGINT');
  const [status] = await agent.ended;
  await check('read back', async () => {
    same('exit status', status, 0);
    same('events', await ids(), before);
    return `${before.length} events, the same after the end`;
  });
  await check('losses', () => missing.compare(query));
  daemon.process.kill('SIGINT');
  await daemon.ended;
  await check('kreplay run', checkRun);
  await check('doctor', checkDoctor);
  await check('lockdown', checkLockdown);
}

async function refused(): Promise<void> {
  await check('agent', async () => {
    const child = spawn(KREPLAY, ['agent', '--data', DATA], { stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
    const [status] = (await once(child, 'close')) as [number];
    same('exit status', status, NOT_HERE);
    if (!/^kreplay: this kernel cannot be recorded, it has .*\n$/.test(said)) throw new Error(said);
    return said.trim();
  });
  await check('doctor', () => {
    const [status, diagnosis] = doctor();
    same('exit status', status, NOT_HERE);
    const states = ['features', 'tracepoints', 'programs'].map((name) => stateOf(diagnosis, name));
    same('states', states, ['failed', 'failed', 'failed']);
    return 'says what is missing';
  });
}

await (expected === 'refused' ? refused() : recorded());
