/**
 * What each suite costs: wall time, CPU time of the suite and of the processes that it started and waited for, and which
 * those were. As a jest reporter it leaves build/test_costs.tsv, dearest suite first.
 */
import diagnostics from 'node:diagnostics_channel';
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');
const RECORDS = join(ROOT, 'build/test_costs.jsonl');
const TABLE = join(ROOT, 'build/test_costs.tsv');
/** The kernel counts CPU time in ticks of this length. */
const TICK_S = 0.01;

/** Number of processes by program, since the current suite began. */
let started = new Map();

diagnostics.subscribe('child_process', ({ process: child }) => {
  // What is started is known when the call that announces it has returned.
  queueMicrotask(() => {
    const name = programOf(child.spawnargs ?? []);
    started.set(name, (started.get(name) ?? 0) + 1);
  });
});

function programOf([file = '', ...args]) {
  const at = args.findIndex((arg) => /\.(ts|js|mjs|py|sh|jar)$/.test(arg));
  if (at < 0) return basename(file);
  return args[at].endsWith('/kreplay.ts') ? `kreplay ${args[at + 1] ?? ''}` : basename(args[at]);
}

/** CPU time of this process, and of its children that have ended and were waited for. */
function cpuSeconds() {
  // The name of the program, in brackets, may have blanks; utime is the 12th field after it.
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1).split(' ');
  const [user, system, userOfChildren, systemOfChildren] = fields.slice(11, 15).map((ticks) => Number(ticks) * TICK_S);
  return { own: user + system, children: userOfChildren + systemOfChildren };
}

/** Measures the suite until the function that it returns is called. */
export function startMeter(suite) {
  const [from, fromMs] = [cpuSeconds(), Date.now()];
  started = new Map();
  return () => {
    const to = cpuSeconds();
    const [own, children] = [to.own - from.own, to.children - from.children];
    const record = { suite: relative(ROOT, suite), wall: (Date.now() - fromMs) / 1000, own, children };
    mkdirSync(dirname(RECORDS), { recursive: true });
    appendFileSync(RECORDS, `${JSON.stringify({ ...record, started: Object.fromEntries(started) })}\n`);
  };
}

export default class Costs {
  onRunStart() {
    rmSync(RECORDS, { force: true });
  }

  onRunComplete() {
    if (!existsSync(RECORDS)) return;
    const records = readFileSync(RECORDS, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const cpu = ({ own, children }) => own + children;
    const rows = records
      .toSorted((a, b) => cpu(b) - cpu(a))
      .map((record) => [
        record.suite,
        ...[record.wall, cpu(record), record.own].map((seconds) => seconds.toFixed(1)),
        Object.entries(record.started)
          .map(([name, count]) => `${count} ${name}`)
          .join(', '),
      ]);
    const head = ['suite', 'wall_s', 'cpu_s', 'cpu_of_jest_s', 'started'];
    writeFileSync(TABLE, [head, ...rows].map((row) => `${row.join('\t')}\n`).join(''));
    rmSync(RECORDS);
  }
}
