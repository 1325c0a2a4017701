/** Checks whether the thread of a daemon that plays replays comes before other programs when CPUs are busy. */
import { readdirSync, readFileSync } from 'node:fs';
import type { Check } from './check.ts';

/** The name that native/clock gives its thread. */
const THREAD_NAME = 'kreplay-clock';
/** Names of a daemon's main thread: Node.js sets the first. */
const MAIN_NAMES = ['MainThread', 'node', 'kreplay'];

export interface ClockThread {
  pid: number;
  /** The content of its `stat` file. */
  stat: string;
}

const name = 'replay clock';

export function replayClock(threads = clockThreads()): Check {
  if (threads.length === 0) return { name, state: 'ok', text: 'no daemon is running' };
  const found = threads.map(({ pid, stat }) => ({ pid, ...priorityOf(stat) }));
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

/** Fields of proc_pid_stat(5), counted from the state, which follows the name. */
const NICE_FIELD = 16;
const POLICY_FIELD = 38;
const SCHED_FIFO = 1;

function priorityOf(stat: string): { isRaised: boolean; text: string } {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (Number(fields[POLICY_FIELD]) === SCHED_FIFO) return { isRaised: true, text: 'a real-time priority' };
  const nice = Number(fields[NICE_FIELD]);
  return nice < 0 ? { isRaised: true, text: `a nice value of ${nice}` } : { isRaised: false, text: 'no priority' };
}

function clockThreads(): ClockThread[] {
  const found: ClockThread[] = [];
  for (const pid of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    if (!MAIN_NAMES.includes(nameOf(`/proc/${pid}`))) continue;
    for (const tid of entriesOf(`/proc/${pid}/task`)) {
      const thread = `/proc/${pid}/task/${tid}`;
      if (nameOf(thread) !== THREAD_NAME) continue;
      const stat = contentOf(`${thread}/stat`);
      if (stat !== '') found.push({ pid: Number(pid), stat });
    }
  }
  return found;
}

const nameOf = (folder: string) => contentOf(`${folder}/comm`).trim();

/** Empty when it has ended meanwhile. */
function contentOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
