/**
 * The owner of a task's events, by how the task was created and by what became of the task that set the label. A forked
 * process has a copy, which stays; a thread has its creator's label only while the creator holds it.
 */
import {
  alone,
  die,
  exec,
  type Families,
  type Family,
  fork,
  joined,
  leave,
  mark,
  orphaned,
  post,
  recordFamilies,
  say,
  set,
  setsid,
  spawned,
  thread,
  vfork,
  type Words,
  wait,
} from './lineages.ts';
import { newRecorder, removeFolders } from './recorded_run.ts';

const shared = newRecorder();

afterAll(async () => {
  await shared.stop();
  removeFolders();
});

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const TRACEPARENT = `00-${TRACE}-00f067aa0ba902b7-01`;

/** The source of the label: a marker of the creating thread, one of its process, or the environment of its program. */
const HOLDERS = ['marker', 'default', 'environment'] as const;
type Holder = (typeof HOLDERS)[number];

/** The fate of the label between the descendant's first write and its second one. */
const FATES = ['held', 'replaced', 'ended', 'exited'] as const;
type Fate = (typeof FATES)[number];

const isDefault = (holder: Holder) => holder !== 'marker';
const first = (holder: Holder) => (holder === 'marker' ? 'txn=a@' : holder === 'default' ? 'proc txn=a@' : undefined);
const second = (holder: Holder) => (isDefault(holder) ? 'proc txn=b@' : 'txn=b@');
const end = (holder: Holder) => (isDefault(holder) ? 'proc end' : 'end');

interface Way {
  /** The family in which `does` is the descendant; `creator` has the steps before and after its creation. */
  family(creator: { before: Words; after: Words }, does: Words): Words;
  /** Threads of the creator's process would end with it, so only the thread that set the label leaves. */
  exit: 'die' | 'leave';
}

const child = (make: (does: Words) => Words): Way => ({
  family: ({ before, after }, does) => [...before, ...make(does), ...after],
  exit: 'die',
});

const COPIED: Readonly<Record<string, Way>> = {
  fork: child((does) => fork(does)),
  'fork in a new session': child((does) => fork(setsid, does)),
  daemon: child((does) => fork(setsid, fork(does), die)),
  'child of a child': child((does) => fork(fork(does))),
};

/** They find the same environment, but do not inherit it from their creator. */
const EXECUTED: Readonly<Record<string, Way>> = {
  'fork and exec': child((does) => fork(exec(does))),
  posix_spawn: child((does) => spawned(does)),
};

const LENT: Readonly<Record<string, Way>> = {
  thread: { family: ({ before, after }, does) => [...before, ...thread(does), ...after], exit: 'leave' },
  'thread of a thread': {
    family: ({ before, after }, does) => [...before, ...thread(thread(does)), ...after],
    exit: 'leave',
  },
  'thread of a thread that sets the marker': {
    // The process must not end with the thread that leaves.
    family: ({ before, after }, does) => [...thread(before, thread(does), after), ...wait(2)],
    exit: 'leave',
  },
};

const COPIED_BY_A_THREAD: Readonly<Record<string, Way>> = {
  'fork of a thread that sets the marker': {
    family: ({ before, after }, does) => thread(before, fork(does), after),
    exit: 'die',
  },
};

function lineage(way: Way, holder: Holder, fate: Fate): Family {
  const marker = first(holder);
  const fates = {
    held: post(1),
    replaced: [...mark(second(holder)), ...post(1)],
    ended: [...mark(end(holder)), ...post(1)],
    exited: way.exit === 'die' ? die : leave,
  };
  const told = fate !== 'exited' ? wait(1) : way.exit === 'die' ? orphaned : alone;
  const descendant = [...say(1), ...post(0), ...told, ...say(2), ...post(2)];
  const does = way.family({ before: marker ? mark(marker) : [], after: [...wait(0), ...fates[fate]] }, descendant);
  return holder === 'environment' ? { does, environment: { TRACEPARENT } } : { does };
}

/** In bash, `$$` is the shell itself in its children too. */
const SHELLS: Readonly<Record<string, (does: string) => string>> = {
  subshell: (does) => `(${does}) &`,
  'part of a pipeline': (does) => `{ ${does}; } | cat &`,
};

function shellScript(make: (does: string) => string, holder: Holder, fate: Fate): Family {
  const marker = first(holder);
  const line = (text: string) => `echo 'KREPLAY1 ${text}' >/dev/null`;
  const fates = { held: ':', replaced: line(second(holder)), ended: line(end(holder)), exited: 'exit' };
  const told = fate === 'exited' ? 'while kill -0 $$ 2>/dev/null; do sleep 0.01; done' : 'read -r -u 6 _';
  const does = `
    mkfifo $out.begun $out.told && exec 5<>$out.begun 6<>$out.told && rm $out.begun $out.told
    say() { printf '%*s' "$1" '' >>"$out"; }
    ${marker ? line(marker) : ''}
    ${make(`say 1; echo >&5; ${told}; say 2`)}
    read -r -u 5 _
    ${fates[fate]}
    echo >&6
    wait`;
  return holder === 'environment' ? { does, environment: { TRACEPARENT } } : { does };
}

const CELLS = HOLDERS.flatMap((holder) => FATES.map((fate) => ({ holder, fate })));
const nameOf = (way: string, holder: Holder, fate: Fate) => `${way}, ${holder} ${fate}`;

const COPY = { marker: 'a inherited inherited', default: 'a inherited inherited' };

function ofCopied(holder: Holder): readonly [string, string] {
  const owner = holder === 'environment' ? 'trace env inherited' : COPY[holder];
  return [owner, owner];
}

function ofExecuted(holder: Holder): readonly [string, string] {
  const owner = holder === 'environment' ? 'trace env exact' : COPY[holder];
  return [owner, owner];
}

function ofLent(holder: Holder, fate: Fate): readonly [string, string] {
  const before = { marker: 'a inherited inherited', default: 'a marker exact', environment: 'trace env exact' }[holder];
  // A default belongs to the process: it outlives the thread that set it, and a new one applies to every thread.
  if (fate === 'held' || (isDefault(holder) && fate === 'exited')) return [before, before];
  if (fate === 'replaced' && holder === 'default') return [before, 'b marker exact'];
  if (fate === 'replaced' && holder === 'environment') return [before, 'b trace marker exact'];
  return [before, 'none none'];
}

const WAYS = [
  ...Object.keys(COPIED).map((name) => ({ name, of: ofCopied })),
  ...Object.keys(COPIED_BY_A_THREAD).map((name) => ({ name, of: ofCopied })),
  ...Object.keys(SHELLS).map((name) => ({ name, of: ofCopied })),
  ...Object.keys(EXECUTED).map((name) => ({ name, of: ofExecuted })),
  ...Object.keys(LENT).map((name) => ({ name, of: ofLent })),
];

describe('by the way a task was made, the source of its context and what became of that', () => {
  let families: Families;

  beforeAll(async () => {
    const all: Record<string, Family> = {};
    for (const { holder, fate } of CELLS) {
      for (const [name, way] of Object.entries({ ...COPIED, ...COPIED_BY_A_THREAD, ...EXECUTED, ...LENT }))
        all[nameOf(name, holder, fate)] = lineage(way, holder, fate);
      for (const [name, make] of Object.entries(SHELLS))
        all[nameOf(name, holder, fate)] = shellScript(make, holder, fate);
    }
    families = await recordFamilies(all, shared);
  }, 240_000);

  afterAll(() => families?.remove());

  test.each(WAYS)('$name', ({ name, of }) => {
    const expected = CELLS.map(({ holder, fate }) => [holder, fate, ...of(holder, fate)]);
    const found = CELLS.map(({ holder, fate }) => {
      const family = nameOf(name, holder, fate);
      return [holder, fate, families.ownerOf(family, 1), families.ownerOf(family, 2)];
    });
    expect(found).toEqual(expected);
  });
});

const threadOf = (does: Words): Words => [...mark('txn=a@'), ...thread(does)];

/** Families, and the expected owners of their writes of 1, 2, ... bytes. */
const SINGLE: Readonly<Record<string, { family: Family; owners: readonly string[] }>> = {
  'a child and a thread that set a marker set it for themselves': {
    family: {
      does: [
        ...[...mark('txn=a@'), ...say(1), ...fork(mark('txn=b@'), say(2), fork(say(3))), ...joined],
        ...[...thread(mark('txn=c@'), say(4), fork(say(5))), ...joined, ...say(6)],
        ...[...vfork(mark('txn=d@'), say(7)), ...say(8), ...fork(mark('end'), say(9)), ...joined, ...say(10)],
      ],
    },
    owners: [
      ...['a marker exact', 'b marker exact', 'b inherited inherited', 'c marker exact', 'c inherited inherited'],
      ...['a marker exact', 'd marker exact', 'a marker exact', 'none none', 'a marker exact'],
    ],
  },
  'a program keeps the owner of its thread across any number of execs': {
    family: { does: [...mark('txn=a@'), ...exec(exec(say(1), exec(say(2), mark('txn=b@'), exec(say(3)))))] },
    owners: ['a marker exact', 'a marker exact', 'b marker exact'],
  },
  'a program keeps the default of its process': {
    family: { does: [...mark('proc txn=a@'), ...exec(say(1), thread(say(2)), joined, fork(exec(say(3))))] },
    owners: ['a marker exact', 'a marker exact', 'a inherited inherited'],
  },
  'the environment of the next program is its own': {
    family: {
      does: exec(say(1), set('TRACEPARENT=none'), spawned(say(2)), joined, exec(say(3))),
      environment: { TRACEPARENT },
    },
    owners: ['trace env exact', 'none none', 'none none'],
  },
  'a thread that execs keeps its own marker, and has the environment': {
    family: { does: thread(say(1), mark('txn=a@'), exec(say(2), mark('end'), say(3))), environment: { TRACEPARENT } },
    owners: ['trace env exact', 'a trace marker exact', 'trace env exact'],
  },
  'a program that another thread executes than the first keeps the owner that this thread has': {
    family: {
      does: [...mark('txn=a@'), ...thread(exec(say(1), thread(say(2)), joined, fork(say(3)), mark('end'), say(4)))],
    },
    owners: ['a marker exact', 'a inherited inherited', 'a inherited inherited', 'none none'],
  },
  'and so from a thread of a thread': {
    family: { does: [...mark('txn=a@'), ...thread(thread(exec(say(1), exec(say(2)))))] },
    owners: ['a marker exact', 'a marker exact'],
  },
  'but not an owner that has ended by then': {
    family: { does: [...mark('txn=a@'), ...thread(wait(0), exec(say(1))), ...mark('end'), ...post(0)] },
    owners: ['none none'],
  },
  'nor one that the first thread has meanwhile': {
    family: { does: [...mark('txn=a@'), ...thread(wait(0), exec(say(1))), ...mark('txn=b@'), ...post(0)] },
    owners: ['none none'],
  },
  'a program that another thread executes than the first keeps the default of its process': {
    family: {
      does: [...mark('proc txn=a@'), ...thread(exec(say(1), thread(say(2)), joined, fork(say(3)), exec(say(4))))],
    },
    owners: ['a marker exact', 'a marker exact', 'a inherited inherited', 'a marker exact'],
  },
  'and so when the first thread has ended before': {
    family: { does: [...mark('proc txn=a@'), ...thread(alone, exec(say(1))), ...leave] },
    owners: ['a marker exact'],
  },
  'a pool thread has no owner between the transactions that it marks itself': {
    family: {
      does: [
        ...threadOf([
          ...[...say(1), ...post(0), ...wait(1), ...say(2), ...mark('txn=p@'), ...say(3)],
          ...[...mark('txn=q@'), ...say(4), ...mark('end'), ...say(5)],
        ]),
        ...[...wait(0), ...mark('txn=b@'), ...post(1), ...joined, ...say(6)],
      ],
    },
    owners: [
      ...['a inherited inherited', 'none none', 'p marker exact', 'q marker exact', 'none none'],
      ...['b marker exact'],
    ],
  },
  'tasks that are forked and started after the end have no owner': {
    family: { does: [...mark('txn=a@'), ...mark('end'), ...fork(say(1)), ...thread(say(2)), ...spawned(say(3))] },
    owners: ['none none', 'none none', 'none none'],
  },
  'a process whose first thread has ended still has a default': {
    family: {
      does: [...thread(alone, say(1), mark('proc txn=a@'), say(2), thread(say(3)), joined, fork(say(4))), ...leave],
    },
    owners: ['none none', 'a marker exact', 'a marker exact', 'a inherited inherited'],
  },
  'the marker of a thread precedes the default of its process, which applies again afterwards': {
    family: {
      does: [...mark('proc txn=a@'), ...thread(mark('txn=b@'), say(1), mark('end'), say(2)), ...joined, ...say(3)],
    },
    owners: ['b marker exact', 'a marker exact', 'a marker exact'],
  },
};

/** Heirs of a task that borrows its label from its creator: when that one drops it, they keep it or have no owner. */
const OF_LENT: Readonly<Record<string, (does: Words) => Words>> = {
  'fork of a thread': (does) => thread(fork(does)),
  'fork and exec of a thread': (does) => thread(fork(exec(does))),
  'thread of a child': (does) => fork(thread(does)),
  'fork of a thread of a child': (does) => fork(thread(fork(does))),
  'exec by a thread of a child': (does) => fork(thread(exec(does))),
};

describe('individual cases', () => {
  let families: Families;

  beforeAll(async () => {
    const all = Object.fromEntries(Object.entries(SINGLE).map(([name, { family }]) => [name, family]));
    for (const [name, make] of Object.entries(OF_LENT)) {
      for (const fate of FATES) all[nameOf(name, 'marker', fate)] = lineage(child(make), 'marker', fate);
    }
    families = await recordFamilies(all, shared);
  }, 120_000);

  afterAll(() => families?.remove());

  test.each(Object.entries(SINGLE))('%s', (name, { owners }) => {
    expect(owners.map((_, i) => families.ownerOf(name, i + 1))).toEqual(owners);
  });

  test.each(Object.keys(OF_LENT))('%s', (name) => {
    const owners = (bytes: number) => FATES.map((fate) => families.ownerOf(nameOf(name, 'marker', fate), bytes));
    expect(owners(1)).toEqual(FATES.map(() => 'a inherited inherited'));
    const others = owners(2).filter((owner) => owner !== 'a inherited inherited' && owner !== 'none none');
    expect([owners(2)[0], others]).toEqual(['a inherited inherited', []]);
  });
});
