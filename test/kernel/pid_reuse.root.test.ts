/**
 * The kernel reuses the numbers of processes and threads. A task has nothing of the dead one that had its number: no
 * transaction, no service, no program; whether the agent has read about the dead one by then or not.
 */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openReader } from '../../agent/recording/read/reader.ts';
import { RECORDING_FILE } from '../../agent/recording_path.ts';
import {
  exec,
  type Families,
  type Family,
  fork,
  joined,
  leave,
  live,
  mark,
  numbered,
  post,
  type StartedFamilies,
  say,
  set,
  startFamilies,
  thread,
  type Words,
  wait,
} from './lineages.ts';
import { isMissedEnd } from './missed_ends.ts';
import { type Recorded, readRecording, removeFolders, startAgent, temporaryFolder } from './recorded_run.ts';

const LAST_NUMBER = '/proc/sys/kernel/ns_last_pid';
const canChoose = existsSync(LAST_NUMBER);
if (!canChoose) console.warn(`skipped: this kernel has no ${LAST_NUMBER}, so the number of a process cannot be chosen`);
const whenChosen = canChoose ? describe : describe.skip;

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const ROUNDS = 41;
const ATTEMPTS_MAX = 5;
/** An agent that does not read for seconds has room for what the whole machine does meanwhile. */
const RING_MIB = '128';
/** A running agent has read everything after this time. */
const READ_MS = 400;
/** The unit in which /proc counts the starts of processes. */
const TICK_MS = 10;

const freeNumbers = (function* () {
  for (let number = Number(readFileSync('/proc/sys/kernel/pid_max', 'utf8')) - 100; number > 1000; number -= 3) {
    if (!existsSync(`/proc/${number}`)) yield number;
  }
})();

/** Tasks one after another, all with the same number. */
function heirs(number: number, ...tasks: readonly Words[]): Words {
  return tasks.flatMap((task) => [...numbered(number), ...task, ...joined]);
}

/** Tasks, and the expected owners of their writes of 1, 2, ... bytes. */
const CONTEXTS: Readonly<Record<string, { does: (number: number) => Words; owners: readonly string[] }>> = {
  'process after process': {
    does: (number) =>
      heirs(number, fork(mark('txn=a@'), say(1)), fork(say(2)), fork(mark('txn=b@'), say(3)), fork(say(4))),
    owners: ['a marker exact', 'none none', 'b marker exact', 'none none'],
  },
  'thread after thread': {
    does: (number) =>
      heirs(number, thread(mark('txn=a@'), say(1)), thread(say(2)), thread(mark('txn=b@'), say(3)), thread(say(4))),
    owners: ['a marker exact', 'none none', 'b marker exact', 'none none'],
  },
  'process after thread, thread after process': {
    does: (number) =>
      heirs(number, thread(mark('txn=a@'), say(1)), fork(say(2), mark('txn=b@'), say(3)), thread(say(4))),
    owners: ['a marker exact', 'none none', 'b marker exact', 'none none'],
  },
  'a process after one with a default': {
    does: (number) =>
      heirs(number, fork(mark('proc txn=a@'), thread(say(1))), fork(say(2), thread(say(3))), thread(say(4))),
    owners: ['a marker exact', 'none none', 'none none', 'none none'],
  },
  'a process after one with a trace': {
    does: (number) =>
      heirs(number, fork(set(`TRACEPARENT=${TRACEPARENT}`), exec(say(1))), fork(say(2)), fork(exec(say(3)))),
    owners: ['trace env exact', 'none none', 'none none'],
  },
  'what the exited process had from its parent': {
    does: (number) => [
      ...[...mark('txn=a@'), ...heirs(number, fork(say(1)), thread(say(2)))],
      ...[...mark('end'), ...heirs(number, fork(say(3)), thread(say(4)))],
    ],
    owners: ['a inherited inherited', 'a inherited inherited', 'none none', 'none none'],
  },
  'what a thread has of an exited thread does not come back with its id': {
    does: (number) => {
      const pooled = thread(say(1), post(0), wait(1), say(2), post(2));
      return heirs(
        number,
        thread(mark('txn=a@'), pooled, wait(0), leave),
        thread(mark('txn=b@'), say(3), post(1), wait(2), say(4)),
      );
    },
    owners: ['a inherited inherited', 'none none', 'b marker exact', 'b marker exact'],
  },
};

const served = (name: string, ...does: readonly Words[]) => fork(set(`OTEL_SERVICE_NAME=${name}`), exec(...does));

const services = (number: number) =>
  heirs(
    number,
    served('old', say(1)),
    served('new', say(2)),
    fork(exec(say(3))),
    served('newest', say(4)),
    fork(say(5)),
  );
const SERVICES_OF = ['old', 'new', 'lineage', 'newest', 'lineage'];

/** Processes with one number: every other one, from the first, has a transaction and a service; the rest have none. */
const many = (number: number) =>
  heirs(
    number,
    ...Array.from({ length: ROUNDS }, (_, i) =>
      i % 2 === 0 ? served(`service-${i}`, mark(`txn=${i}@`), say(i + 1)) : fork(exec(say(i + 1))),
    ),
  );

/** More variables than the kernel side reads: the agent asks /proc about such a process. */
const MANY_VARIABLES = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`V${i}`, 'x']));

function writesMissed({ dataFolder }: Recorded): boolean {
  const reader = openReader(join(dataFolder, RECORDING_FILE));
  try {
    return reader.losses().some((loss) => isMissedEnd(loss) && loss.eventType !== 'block_io');
  } finally {
    reader.close();
  }
}

/** Tries another number if an unrelated process gets the first one, and keeps it. */
async function withNumber<T>(work: (number: number) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work(freeNumbers.next().value!);
    } catch (error) {
      if (attempt === ATTEMPTS_MAX || !(error as Error).message.includes('number: ')) throw error;
    }
  }
}

/** Runs a process that has ended when the agent asks /proc about it, and one with its number that is still there. */
async function runAskedOf(started: StartedFamilies, number: number, readMs: number, wake: () => void) {
  const [dead, living] = [`dead ${number}`, `living ${number}`];
  const family = (name: string, ...does: readonly Words[]): Family => ({
    does: [...numbered(number), ...served(name, ...does)],
    environment: MANY_VARIABLES,
  });
  await started.run({ [dead]: family('dead', say(1)) });
  await sleep(readMs);
  const ended = started.run({ [living]: family('living', say(1), live(2000)) });
  const begun = () => (statSync(started.fileOf(living), { throwIfNoEntry: false })?.size ?? 0) > 0;
  while (!begun()) await Promise.race([sleep(TICK_MS), ended]);
  wake();
  await ended;
  return { dead, living };
}

whenChosen.each([
  { agent: 'that keeps up', isRead: true },
  { agent: 'that has read nothing of the exited processes yet', isRead: false },
])('an agent $agent', ({ isRead }) => {
  let families: Families;
  const names: Record<string, string> = {};

  async function record(): Promise<Families> {
    const started = startFamilies();
    const agent = await startAgent(temporaryFolder(), ['--ring-size', RING_MIB]);
    const wake = () => agent.process.kill('SIGCONT');
    const all = {
      ...Object.fromEntries(Object.entries(CONTEXTS).map(([name, { does }]) => [name, does])),
      services,
      many,
    };
    try {
      if (!isRead) agent.process.kill('SIGSTOP');
      for (const [name, does] of Object.entries(all)) {
        await withNumber(async (number) => {
          names[name] = `${name} ${number}`;
          await started.run({ [names[name]]: { does: does(number) } });
        });
      }
      Object.assign(
        names,
        await withNumber((number) => runAskedOf(started, number, isRead ? READ_MS : 2 * TICK_MS, wake)),
      );
    } finally {
      wake();
      await agent.stop();
    }
    return started.families(readRecording(agent.dataFolder));
  }

  beforeAll(async () => {
    families = await record();
    // A write whose end the kernel did not show is not there; most of such losses are of block requests.
    for (let again = 1; again < ATTEMPTS_MAX && writesMissed(families.recorded); again++) {
      families.remove();
      families = await record();
    }
  }, 120_000);

  afterAll(() => {
    families?.remove();
    removeFolders();
  });

  const writes = (name: string, count: number) =>
    Array.from({ length: count }, (_, i) => families.writeOf(names[name]!, i + 1));
  const owners = (name: string, count: number) =>
    Array.from({ length: count }, (_, i) => families.ownerOf(names[name]!, i + 1));
  const numberCount = (name: string, count: number) => new Set(writes(name, count).map(({ tid }) => tid)).size;

  test.each(Object.entries(CONTEXTS))('%s', (name, { owners: expected }) => {
    expect(owners(name, expected.length)).toEqual(expected);
    // They did have the same number: there are fewer numbers than tasks.
    expect(numberCount(name, expected.length)).toBeLessThan(expected.length);
  });

  test('a service is that of the running program, not of an earlier one with its PID', () => {
    const found = writes('services', SERVICES_OF.length).map(({ service_name }) => service_name);
    expect(found).toEqual(SERVICES_OF);
    expect(numberCount('services', SERVICES_OF.length)).toBe(1);
  });

  test(`${ROUNDS} processes of the same PID`, () => {
    const services = writes('many', ROUNDS).map(({ service_name }) => service_name);
    expect(services).toEqual(services.map((_, i) => (i % 2 === 0 ? `service-${i}` : 'lineage')));
    expect(owners('many', ROUNDS)).toEqual(services.map((_, i) => (i % 2 === 0 ? `${i} marker exact` : 'none none')));
    expect(numberCount('many', ROUNDS)).toBe(1);
  });

  test('/proc is not trusted if it shows another process with the same PID', () => {
    const [dead, living] = ['dead', 'living'].map((name) => families.writeOf(names[name]!, 1));
    expect(dead!.pid).toBe(living!.pid);
    // It had ended before the agent could ask, or the agent asked in time.
    expect(['lineage', 'dead']).toContain(dead!.service_name);
    expect(['lineage', 'living']).toContain(living!.service_name);
  });
});
