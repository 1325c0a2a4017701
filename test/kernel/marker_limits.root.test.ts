/**
 * Lines that are almost markers, and lines that no program would write in earnest. Each has exactly its own meaning or
 * none: no event may have an owner that the line before it does not name.
 */
import { join } from 'node:path';
import type { SysWriteEvent } from '../../bpf/schema/api.ts';
import { times } from '../repeats.ts';
import { run } from './programs.ts';
import { newRecorder, type Recorded, removeFolders, temporaryFolder } from './recorded_run.ts';

const HOSTILE = join(import.meta.dirname, 'hostile_markers.py');

const folder = temporaryFolder();

/** The agent of all tests here. */
const shared = newRecorder();

afterAll(async () => {
  await shared.stop();
  removeFolders();
});

type Part = string | Buffer;

interface Step {
  parts: readonly Part[];
  /** One of the ways of writing in hostile_markers.py. */
  how: string;
  /** The transaction that they set, null for none. Undefined: they set nothing, so what was set before stands. */
  said: string | null | undefined;
}

const written = (text: Part, said: Step['said'], how = 'write'): Step => ({ parts: [text], how, said });
/** A line that is a marker, except for its length. */
const line = (text: Part, said: Step['said']): Step =>
  written(Buffer.concat([Buffer.from('KREPLAY1 '), Buffer.from(text as string)]), said);

/** Runs the steps, and returns what was recorded of the write after each. */
async function recordSteps(steps: readonly Step[]): Promise<{ recorded: Recorded; writes: SysWriteEvent[] }> {
  const out = join(folder, `out-${performance.now()}`);
  const input = steps.map(({ parts, how }, i) => {
    return { how, base: baseOf(i), parts: parts.map((part) => Buffer.from(part as string).toString('hex')) };
  });
  const recorded = await shared.record(() => {
    run('python3', [HOSTILE, out], { input: JSON.stringify(input) });
  });
  const writes = recorded.writes().filter(({ file }) => file === out);
  expect(writes.map(({ result }) => Number(result))).toEqual(steps.map((_, i) => i + 1));
  expect(recorded.losses().filter(({ cause }) => cause === 'bad_record')).toEqual([]);
  return { recorded, writes };
}

const baseOf = (index: number) => `base-${index}`;

async function expectSaid(steps: readonly Step[]): Promise<Recorded> {
  const { recorded, writes } = await recordSteps(steps);
  const found = steps.map((step, i) => ({ ...step, found: writes[i]!.transaction_id }));
  const others = found.filter(({ said, found }, i) => found !== (said === undefined ? baseOf(i) : said));
  expect(others.map(({ parts, ...other }) => ({ parts: parts.map(String), ...other }))).toEqual([]);
  return recorded;
}

test('lines of all lengths around the shortest and the longest', async () => {
  const id = (lineSize: number) => 'i'.repeat(lineSize - 'KREPLAY1 txn='.length);
  const accented = 'é'.repeat(504);
  const escaped = '%E2%82%AC'.repeat(112);
  const recorded = await expectSaid([
    written('KREPLAY', undefined),
    written('KREPLAY1', undefined),
    written('KREPLAY1 ', null),
    written('KREPLAY1\n', null),
    ...['t', 'txn', 'txn=', 'txn=\n'].map((text) => line(text, null)),
    ...[14, 15, 16, 17, 100, 1021, 1022, 1023].map((size) => line(`txn=${id(size)}`, id(size))),
    ...[15, 16, 17, 100, 1021, 1022, 1023].map((size) => line(`txn=${id(size - 1)}\n`, id(size - 1))),
    ...[1024, 1025, 2048, 65536].map((size) => line(`txn=${id(size)}`, undefined)),
    ...[1024, 1025].map((size) => line(`txn=${id(size - 1)}\n`, undefined)),
    line(`txn=${accented}\n`, accented),
    line(`txn=${escaped}\n`, '€'.repeat(112)),
    // The longest line, and the shortest after it: nothing of the longest may be left.
    line(`txn=${id(1023)}`, id(1023)),
    line('txn=i', 'i'),
  ]);
  for (const transactionId of [id(1023), id(1022), accented]) {
    expect(recorded.writes({ transactionId }).length).toBeGreaterThan(0);
  }
});

test('every character in an identifier', async () => {
  const characters = Array.from({ length: 128 }, (_, code) => String.fromCharCode(code));
  const said = (character: string) => {
    if (character === ' ') return 'x';
    return /[!-~]/.test(character) && character !== '%' ? `x${character}y` : null;
  };
  await expectSaid([
    ...characters.map((character) => line(`txn=x${character}y`, said(character))),
    ...['é', 'ÿ', '€', '\u{1f600}', '\u0080', '\u{10ffff}'].map((text) => line(`txn=x${text}y`, `x${text}y`)),
  ]);
});

test('escapes', async () => {
  const whole = { '%41': 'A', '%25': '%', '%20': ' ', '%C3%A9': 'é', '%e2%82%ac': '€', 'a%3Db': 'a=b', '%0a': '\n' };
  const malformed = ['%', 'a%', '%2', '%zz', '%g1', '%%', '% 20', '%25%', '%u0041', '%-1'];
  const noText = ['%C3', '%FF', '%ED%A0%80', '%C0%80', '%F4%90%80%80', '%E2%82', '%80'];
  await expectSaid([
    ...Object.entries(whole).map(([escaped, said]) => line(`txn=${escaped}`, said)),
    ...[...malformed, ...noText].map((escaped) => line(`txn=${escaped}`, null)),
  ]);
});

test('words that are not fields, or other fields', async () => {
  await expectSaid([
    line('txn=a txn=b', 'b'),
    line('txn=a txn=', 'a'),
    line(' txn=a  x-y=z ', 'a'),
    line('procs txn=a', 'a'),
    ...['TXN=a', 'txn =a', 'txn', '=a', 'xtxn=a', 'txna', '__proto__=a', 'end', 'end\n', 'ended', 'end ', 'END'].map(
      (text) => line(text, null),
    ),
    ...['proc', 'proc\n', 'proctxn=a', 'proc\ttxn=a'].map((text) => line(text, null)),
    // These are for the process, and the thread has its own.
    line('proc txn=whole', undefined),
    line('end', 'whole'),
    line('proc ', undefined),
    line('end', null),
    line('proc txn=whole', undefined),
    line('proc end', undefined),
    line('end', null),
  ]);
});

test('lines that are written in other ways, truncated, or to other files', async () => {
  const text = 'KREPLAY1 txn=a\n';
  const recorded = await expectSaid([
    ...['writev', 'pwrite64', 'pwritev', 'pwritev2'].map((how) => written(text, 'a', how)),
    { how: 'writev', parts: [text, '', ''], said: 'a' },
    ...['to /dev/zero', 'to a file', 'to a closed descriptor'].map((how) => written(text, undefined, how)),
    // Only the beginning of a line: it names no transaction, or is no marker.
    ...['KREPLAY1 txn', 'KREPLAY1 tx', 'KREPLAY1 '].map((front) => written(front, null)),
    ...['KREPLAY1', 'KREP', 'K'].map((front) => written(front, undefined)),
    { how: 'write', parts: ['KREPLAY1 ', 'txn=a\n'], said: null },
    { how: 'write', parts: ['KREPLAY1', ' txn=a\n'], said: undefined },
    { how: 'write', parts: ['KREP', 'LAY1 txn=a\n'], said: undefined },
    { how: 'writev', parts: ['KREP', 'LAY1 txn=a\n'], said: undefined },
    { how: 'writev', parts: ['', text], said: undefined },
    { how: 'writev', parts: ['other', text], said: undefined },
    ...[' KREPLAY1 txn=a', 'kreplay1 txn=a', 'KREPLAY2 txn=a', 'x\nKREPLAY1 txn=a'].map((other) =>
      written(other, undefined),
    ),
  ]);
  // A line that is no marker is a write like any other.
  const elsewhere = recorded.writes().filter(({ file, result }) => file === '/dev/zero' && result === 15n);
  expect(elsewhere).toHaveLength(1);
});

test('a possible marker that cannot be read sets no owner, and is counted', async () => {
  const text = 'KREPLAY1 txn=across-the-page\n';
  const cuts = [1, 7, 8, 9, 10, 12, 13, 14, 16, 17, text.length - 1];
  const unread = ['of a page that is not there', 'of a page that nothing has touched', 'of address 0'];
  unread.push('by a vector that nothing has touched', 'by a vector at address 0');
  const steps = [
    ...unread.map((how) => written(text, null, how)),
    ...cuts.map((at) => ({
      how: 'across a page that is not there',
      parts: [text.slice(0, at), text.slice(at)],
      said: null,
    })),
  ];
  const recorded = await expectSaid(steps);
  const lost = recorded.losses().filter(({ cause }) => /^(definition_lost|marker_unreadable)$/.test(cause));
  expect(lost.reduce((sum, loss) => sum + loss.lost, 0)).toBeGreaterThanOrEqual(steps.length);
});

/** Park and Miller's generator, so that a failure can be repeated. */
function* randomNumbers(seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (state * 48271) % 2147483647;
    yield state;
  }
}

/** The text that each word of a line names as a transaction, or null. */
function namedIn(text: Buffer): (string | null)[] {
  const words = text.toString('utf8').replace(/\n$/, '').split(' ');
  return words.map((word) => {
    try {
      return word.startsWith('txn=') ? decodeURIComponent(word.slice(4)) : null;
    } catch {
      return null;
    }
  });
}

test('random bytes', async () => {
  const random = randomNumbers(20261122);
  const below = (limit: number) => random.next().value % limit;
  const pieces = [
    'txn=',
    'txn=',
    'trace=',
    'svc=',
    'tp=00-',
    '=',
    ' ',
    ' ',
    '%',
    '%4',
    '%41',
    'end',
    'é',
    '\0',
    '\n',
    'a',
  ];
  const piece = () => (below(3) === 0 ? Buffer.from([below(256)]) : Buffer.from(pieces[below(pieces.length)]!));
  const lines = Array.from({ length: 600 }, () =>
    Buffer.concat([Buffer.from('KREPLAY1 '), ...Array.from({ length: 1 + below(40) }, piece)]),
  );
  const { writes } = await recordSteps(lines.map((text) => written(text, undefined)));
  const wrong = writes.filter(({ transaction_id }, i) => ![null, ...namedIn(lines[i]!)].includes(transaction_id));
  expect(wrong).toEqual([]);
  expect(writes.filter(({ transaction_id }) => transaction_id !== null).length).toBeGreaterThan(20);
});

const FLOOD = times(100_000);

test('a process that floods the agent with markers takes no events from others, and its losses are counted', async () => {
  const slow = join(folder, 'slow');
  const fast = join(folder, 'fast');
  const programs = `
import os, sys, threading
null = os.open("/dev/null", os.O_WRONLY)
def opened(path): return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
if sys.argv[1] == "slow":
    out = opened("${slow}")
    os.write(null, b"KREPLAY1 txn=slow")
    ended = threading.Event()
    flooded = threading.Thread(target=lambda: (sys.stdin.read(), ended.set()))
    flooded.start()
    while not ended.wait(0.02): os.write(out, b".")
else:
    out = opened("${fast}")
    for i in range(${FLOOD}):
        os.write(null, b"KREPLAY1 txn=fast-%d" % i)
        if i % 1000 == 0: os.write(out, b"." * (i // 1000 + 1))
`;
  const recorded = await shared.record(() => {
    // The slow program ends when the fast one closes its end of the pipe.
    run('bash', ['-c', '(python3 -c "$0" fast; sleep 0.5) | python3 -c "$0" slow', programs], { timeout: 100_000 });
  });
  const tally = (file: string, transactionOf: (event: SysWriteEvent) => string) => {
    const counts = { right: 0, none: 0, wrong: 0 };
    for (const event of recorded.writes().filter((event) => event.file === file)) {
      const isRight = event.transaction_id === transactionOf(event);
      counts[isRight ? 'right' : event.transaction_id === null ? 'none' : 'wrong']++;
    }
    return counts;
  };
  const ofSlow = tally(slow, () => 'slow');
  const ofFast = tally(fast, ({ result }) => `fast-${(Number(result) - 1) * 1000}`);
  const lost = recorded.losses().reduce((sum, loss) => sum + loss.lost, 0);
  expect([ofSlow.wrong, ofFast.wrong]).toEqual([0, 0]);
  expect(ofSlow.right + ofSlow.none).toBeGreaterThan(0);
  expect(lost).toBeGreaterThanOrEqual(ofSlow.none + ofFast.none > 0 ? 1 : 0);
}, 120_000);
