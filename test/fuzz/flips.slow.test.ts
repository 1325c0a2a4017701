/**
 * Damages a recording at any place while a daemon serves it: flipped bits, zeroed sectors, swapped and repeated pages,
 * a cut. Each answer is compared with that of the undamaged file: it is the same, or it reports damage and contains
 * nothing untrue, or it is refused.
 */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { RecordingError } from '../../agent/recording/format/errors.ts';
import { PAGE_BYTES } from '../../agent/recording/format/schema.ts';
import { isWhole, verifyRecording } from '../../agent/recording/read/verify.ts';
import { appendRows, newFolder, newWriter, type Row, recordedOn, recordingPath, START } from '../daemon/recorded.ts';
import { type Answer, type Served, serve } from '../daemon/served.ts';
import { times } from '../repeats.ts';

const RUNS = times(50);
const RUN_MS_MAX = 1500;
const SECTOR_BYTES = 512;
const ROWS_OF_LONG = 500;
const ROWS_OF_SHORT = 30;
const ROWS = ROWS_OF_LONG + 10 * ROWS_OF_SHORT;

const folder = newFolder();
const path = recordingPath(folder);
let served: Served;
let whole: Buffer;

/** Some rows go to one long segment, the others to short ones, so that all tables have several pages. */
function row(i: number): Row {
  const transaction = `order-${Math.floor(i / 12)}`;
  const owner = i % 7 === 0 ? {} : { transaction, trace: String(i % 40).padStart(32, 'a'), span: `${i}` };
  const common = {
    at: START + BigInt(i) * 1_000_003n - BigInt((i * 7919) % 500_000),
    duration: BigInt((i * 104_729) % 9_000_000),
    service: `service-${i % 23}`,
    comm: `comm-${i % 31}`,
    pid: 100 + (i % 9),
    result: i % 29 === 0 ? -28n : 64n,
    ...owner,
  };
  if (i % 5 === 0) return { type: 'block_io', sector: BigInt(i * 8), bytes: 4096n, device: 'vda', ...common };
  return { file: `/var/lib/shop/orders-${i % 97}.log`, ...common };
}

function rows(from: number, to: number): Row[] {
  return Array.from({ length: to - from }, (_, i) => row(from + i));
}

beforeAll(async () => {
  const source = recordedOn('test-node', rows(0, ROWS_OF_LONG));
  for (let from = ROWS_OF_LONG; from < ROWS; from += ROWS_OF_SHORT) {
    const writer = newWriter(source);
    appendRows(writer, rows(from, from + ROWS_OF_SHORT));
    for (let i = 0; i < 12; i++) {
      const at = START + BigInt(from + i) * 1_000_003n;
      writer.recordLoss({ cause: 'ring_full', eventType: 'sys_write', count: from + i, fromNs: at, toNs: at + 9n });
      writer.recordClock({ kind: 'slew', bootNs: BigInt(from + i), offsetNs: START + BigInt(i), suspendedNs: 0n });
    }
    writer.close();
  }
  whole = readFileSync(recordingPath(source));
  mkdirSync(folder, { recursive: true });
  put(whole);
  served = await serve(folder);
}, 60_000);

afterAll(() => served.close());

/** Replaces the file that the daemon has open. */
function put(bytes: Buffer): void {
  writeFileSync(`${path}.new`, bytes);
  renameSync(`${path}.new`, path);
}

const WINDOW = `from=${START + 100_000_000n}&to=${START + 600_000_000n}`;

const QUESTIONS: readonly string[] = [
  '/api/events?limit=1000',
  '/api/events?limit=1000&order=desc',
  `/api/events?limit=400&${WINDOW}`,
  '/api/events?transaction_id=order-40',
  '/api/events?transaction_id=order-55',
  '/api/events?service=service-7',
  '/api/transactions?limit=500',
  '/api/transactions/order-3',
  '/api/transactions/order-60',
  `/api/stats?${WINDOW}&group_by=service`,
  '/api/services',
  '/api/nodes',
];

const REFUSED = ['recording_corrupt', 'not_a_recording', 'unsupported_format', 'recording_missing'];

type Verdict = 'same' | 'told' | 'refused' | 'wrong' | 'silent';

/** Where a part is damaged that the answer itself does not need, the share of its losses is not known. */
const withoutRates = (text: string) => text.replaceAll(/"rate":\{[^}]*\}/g, '"rate":null');

function verdictOf(answer: Answer, truth: Answer, eventsById: ReadonlyMap<string, string>): Verdict {
  if (answer.status === truth.status && [truth.text, withoutRates(truth.text)].includes(answer.text)) return 'same';
  if (answer.status === 503) return REFUSED.includes(answer.json.code) ? 'refused' : 'wrong';
  if (answer.status !== 200) return 'wrong';
  const { coverage, ...told } = answer.json;
  const { events = [], ...others } = told;
  if (events.some((event: { event_id: string }) => eventsById.get(event.event_id) !== JSON.stringify(event)))
    return 'wrong';
  const damaged = coverage?.losses.some(({ cause }: { cause: string }) => cause === 'damaged') ?? false;
  const isTold = damaged && coverage.complete === false;
  if (!isTold) return 'silent';
  return areTrue(others, truth.json) ? 'told' : 'wrong';
}

const isSame = (element: unknown, other: unknown) => JSON.stringify(element) === JSON.stringify(other);

const COUNTS = /count|bytes|sum|total/;

/** Every element of a list is in the undamaged file's list; a count over fewer events is not larger than over all. */
function areTrue(answer: Record<string, unknown>, truth: Record<string, unknown>): boolean {
  return Object.entries(answer).every(([name, value]) => {
    const known = truth[name];
    if (name === 'next_cursor' || isSame(value, known)) return true;
    // A summary is stored whole; only what is summed for the answer may cover fewer events.
    const isTrue = name === 'stats' ? isPartOf : isSame;
    if (!Array.isArray(value) || !Array.isArray(known)) return isPartOf(value, known, name);
    return value.every((element) => known.some((other) => isTrue(element, other)));
  });
}

/** Numbers that are not counts, such as percentiles, can have any value over fewer events. */
function isPartOf(element: unknown, other: unknown, of = ''): boolean {
  if (isSame(element, other)) return true;
  // Without events there is no percentile.
  if (element === null && typeof other === 'number') return true;
  if (typeof element === 'number' && typeof other === 'number') return !COUNTS.test(of) || element <= other;
  if (typeof element !== 'object' || element === null || typeof other !== 'object' || other === null) return false;
  const has = other as Record<string, unknown>;
  return Object.entries(element).every(([name, value]) => isPartOf(value, has[name], name));
}

type Damage = (bytes: Buffer, at: number, size: number) => Buffer;

const pageAt = (at: number) => at - (at % PAGE_BYTES);

const DAMAGES: Record<string, Damage> = {
  flipped: (bytes, at, size) => {
    bytes[at]! ^= 1 << (size % 8);
    return bytes;
  },
  'flipped ten times': (bytes, at, size) => {
    for (let i = 0; i < 10; i++) bytes[(at + i * size) % bytes.length]! ^= 1 << ((size + i) % 8);
    return bytes;
  },
  'sector zeroed': (bytes, at) =>
    bytes.fill(0, at - (at % SECTOR_BYTES), Math.min(bytes.length, at - (at % SECTOR_BYTES) + SECTOR_BYTES)),
  'page zeroed': (bytes, at) => bytes.fill(0, pageAt(at), pageAt(at) + PAGE_BYTES),
  'pages swapped': (bytes, at, size) => {
    const other = pageAt((at + size) % bytes.length);
    const page = Buffer.from(bytes.subarray(pageAt(at), pageAt(at) + PAGE_BYTES));
    bytes.copy(bytes, pageAt(at), other, other + PAGE_BYTES);
    page.copy(bytes, other);
    return bytes;
  },
  'page repeated': (bytes, at, size) => {
    bytes.copy(bytes, pageAt((at + size) % bytes.length), pageAt(at), pageAt(at) + PAGE_BYTES);
    return bytes;
  },
  cut: (bytes, at) => bytes.subarray(0, at),
};

/** Share of each kind of damage; most are single bits, one in every page before a second one in any. */
const SHARES: Record<string, number> = {
  flipped: 0.7,
  'flipped ten times': 0.06,
  'sector zeroed': 0.08,
  'page zeroed': 0.06,
  'pages swapped': 0.04,
  'page repeated': 0.04,
  cut: 0.02,
};

/** A linear congruential generator with a fixed seed: each run makes the same damage. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state >>> 1;
  };
}

/** A stride that visits every page once before it visits one a second time. */
function coprimeTo(count: number): number {
  const divisor = (a: number, b: number): number => (b === 0 ? a : divisor(b, a % b));
  let stride = 7;
  while (divisor(stride, count) !== 1) stride++;
  return stride;
}

describe('a damaged recording', () => {
  let truths: Map<string, Answer>;
  let eventsById: Map<string, string>;
  let questions: string[];

  beforeAll(async () => {
    const { events } = (await served.get('/api/events?limit=1000')).json;
    eventsById = new Map(events.map((event: { event_id: string }) => [event.event_id, JSON.stringify(event)]));
    const ids = [...eventsById.keys()];
    const single = [0, 0.3, 0.6, 0.99].map((share) => `/api/events/${ids[Math.floor(share * ids.length)]}`);
    questions = [...QUESTIONS, ...single];
    truths = new Map();
    for (const question of questions) truths.set(question, await served.get(question));
    expect(eventsById.size).toBe(ROWS);
    expect([...truths.values()].map(({ status }) => status)).toEqual(questions.map(() => 200));
  });

  const runs = (kind: string) => Math.ceil(RUNS * SHARES[kind]!);

  test.each(Object.keys(DAMAGES))('%s', damages, RUNS * RUN_MS_MAX + 10_000);

  async function damages(kind: string): Promise<void> {
    const next = numbers(kind.length);
    const pages = whole.length / PAGE_BYTES;
    const stride = coprimeTo(pages);
    expect(new Set(Array.from({ length: pages }, (_, i) => (i * stride) % pages)).size).toBe(pages);
    const failures: unknown[] = [];
    for (let run = 0; run < runs(kind); run++) {
      const at = ((run * stride) % pages) * PAGE_BYTES + (next() % PAGE_BYTES);
      const size = next();
      const bytes = DAMAGES[kind]!(Buffer.from(whole), at, size);
      put(bytes);
      const found = await verdicts();
      for (const { question, verdict, text } of found)
        if (verdict === 'wrong' || verdict === 'silent') failures.push({ at, size, question, verdict, text });
      const worst = (['wrong', 'silent', 'refused', 'told'] as const).find((one) =>
        found.some(({ verdict }) => verdict === one),
      );
      const isDamaged = !bytes.equals(whole);
      // Damage that affects no answer is still found by a verification of the file.
      if (isDamaged && !worst && isFoundWhole()) failures.push({ at, size, question: 'verify' });
      const anyTold = worst === 'told' || worst === 'refused';
      if (anyTold && !(await isToldWhenAsked())) failures.push({ at, size, question: '/readyz' });
      await setImmediate();
    }
    expect(failures.slice(0, 3)).toEqual([]);
  }

  function isFoundWhole(): boolean {
    try {
      return isWhole(verifyRecording(path));
    } catch (error) {
      if (!(error instanceof RecordingError)) throw error;
      return false;
    }
  }

  async function verdicts(): Promise<{ question: string; verdict: Verdict; text: string }[]> {
    const found = [];
    for (const question of questions) {
      const answer = await served.get(question);
      const verdict = verdictOf(answer, truths.get(question)!, eventsById);
      found.push({ question, verdict, text: answer.text.slice(0, 300) });
    }
    return found;
  }

  async function isToldWhenAsked(): Promise<boolean> {
    const { status, json } = await served.get('/readyz');
    return status === 503 || json.recordings.some(({ damaged }: { damaged: boolean }) => damaged);
  }
});
