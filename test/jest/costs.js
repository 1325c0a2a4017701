/**
 * What each suite costs: wall time, CPU time of its process and of the processes that it started and waited for, and
 * which those were. As a jest reporter it leaves build/test_costs.tsv, dearest suite first.
 */
import diagnostics from 'node:diagnostics_channel';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');
const TABLE = join(ROOT, 'build/test_costs.tsv');
/** The kernel counts CPU time in ticks of this length. */
const TICK_S = 0.01;

/** Counts the processes that are started from now on, by program. */
export function countStarts() {
  const started = {};
  diagnostics.subscribe('child_process', ({ process: child }) => {
    // What is started is known when the call that announces it has returned.
    queueMicrotask(() => {
      const name = programOf(child.spawnargs ?? []);
      started[name] = (started[name] ?? 0) + 1;
    });
  });
  return started;
}

function programOf([file = '', ...args]) {
  const at = args.findIndex((arg) => /\.(ts|js|mjs|py|sh|jar)$/.test(arg));
  if (at < 0) return basename(file);
  return args[at].endsWith('/kreplay.ts') ? `kreplay ${args[at + 1] ?? ''}` : basename(args[at]);
}

/** CPU time of this process, and of its children that have ended and were waited for, in seconds. */
export function cpuTime() {
  // The name of the program, in brackets, may have blanks; utime is the 12th field after it.
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1).split(' ');
  const [user, system, userOfChildren, systemOfChildren] = fields.slice(11, 15).map((ticks) => Number(ticks) * TICK_S);
  return { own: user + system, children: userOfChildren + systemOfChildren };
}

export default class Costs {
  #rows = [];

  onTestResult({ path }, { perfStats, cost }) {
    if (!cost) return;
    const { own, children, started } = cost;
    const seconds = [perfStats.runtime / 1000, own + children, own];
    const programs = Object.entries(started).map(([name, count]) => `${count} ${name}`);
    this.#rows.push([relative(ROOT, path), ...seconds.map((value) => value.toFixed(1)), programs.join(', ')]);
  }

  onRunComplete() {
    const head = ['suite', 'wall_s', 'cpu_s', 'cpu_without_children_s', 'started'];
    const rows = [head, ...this.#rows.toSorted((a, b) => b[2] - a[2])];
    try {
      mkdirSync(dirname(TABLE), { recursive: true });
      writeFileSync(TABLE, rows.map((row) => `${row.join('\t')}\n`).join(''));
    } catch (error) {
      // The tree may belong to another user.
      process.stderr.write(`the costs of suites are not kept: ${error.message}\n`);
    }
  }
}
