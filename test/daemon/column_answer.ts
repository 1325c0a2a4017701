/** Reads events from a columnar answer and from NDJSON as the same objects, so that the two can be compared. */

/** The fields that a columnar answer has, under names that do not depend on the event's type. */
export interface PlainEvent {
  event_id: string;
  node: string;
  event_type: string;
  timestamp_ns: bigint;
  duration_ns: bigint;
  thread: unknown[];
  what: unknown[];
  owner: unknown[];
  result: bigint;
  error: string | null;
  bytes: bigint | null;
  queue_ns: bigint | null;
  origins: unknown[];
}

// biome-ignore lint/suspicious/noExplicitAny: the lines are not checked before they are compared
type Line = any;

const exact = JSON as unknown as {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): Line;
};

/** Parses every integer as a bigint; shares of losses are no integers. */
export function parseExactly(text: string): Line {
  return exact.parse(text, (_, value, { source }) =>
    /^-?\d+$/.test(source ?? '') && typeof value === 'number' ? BigInt(source!) : value,
  );
}

/** The event of a line of NDJSON. */
export function plainEvent(line: string): PlainEvent {
  const event = parseExactly(line);
  const { event_id, node, event_type, timestamp_ns, duration_ns, result, error } = event;
  return {
    ...{ event_id, node, event_type, timestamp_ns, duration_ns, result, error },
    thread: [event.pid, event.tid, event.comm, event.service_name],
    what: [event.operation ?? event.syscall ?? null, event.file ?? (event.device || null), event.file_kind ?? null],
    owner: [
      ...[event.transaction_id, event.attribution.source, event.attribution.quality],
      event.queued_by?.transaction_id ?? null,
    ],
    bytes: event.bytes_requested ?? event.bytes ?? null,
    queue_ns: event.queue_ns ?? null,
    origins: (event.origins ?? []).map((origin: Line) => [origin.service_name, origin.transaction_id, origin.bytes]),
  };
}

export interface ColumnAnswer {
  events: PlainEvent[];
  /** Number of events of each line. */
  sizes: number[];
  /** The last line, as it was sent; undefined if the answer was cut. */
  coverage: string | undefined;
  /** Number of entries that were listed, by their kind. */
  listed: Record<'recordings' | 'threads' | 'whats' | 'owners', number>;
}

/** Integers beyond 2^53 - 1 are texts, and no others. */
function integerOf(value: unknown): bigint | null {
  if (value === null) return null;
  const integer = BigInt(value as string | bigint);
  const isLarge = integer > 2n ** 53n - 1n || integer < 1n - 2n ** 53n;
  if ((typeof value === 'string') !== isLarge) throw new Error(`${String(value)} is written as another type`);
  return integer;
}

const KEYS = [
  ...['base_ns', 'types', 'recordings', 'threads', 'whats', 'owners', 'errors', 'start', 'duration', 'type', 'thread'],
  ...['what', 'owner', 'result', 'bytes', 'queue', 'number', 'origins'],
];

/** Decodes an answer line by line, and throws where a line is not as the format says. */
export function columnAnswer(text: string): ColumnAnswer {
  if (text !== '' && !text.endsWith('\n')) throw new Error('the last line was cut');
  const lists: Record<string, Line[]> = { recordings: [], threads: [], whats: [], owners: [] };
  const answer = { events: [] as PlainEvent[], sizes: [] as number[], coverage: undefined as string | undefined };
  const [types, errors] = [new Map<string, string>(), new Map<string, string>()];
  for (const text_ of text.split('\n').slice(0, -1)) {
    if (answer.coverage !== undefined) throw new Error('a line follows the coverage');
    const line = parseExactly(text_);
    if ('coverage' in line) {
      answer.coverage = text_;
      continue;
    }
    const unknown = Object.keys(line).filter((key) => !KEYS.includes(key));
    if (unknown.length > 0) throw new Error(`there are more keys: ${unknown}`);
    if (typeof line.base_ns !== 'string') throw new Error('base_ns is no text');
    const origins = line.origins.map(([row]: Line[]) => Number(row));
    if (origins.some((row: number, i: number) => row < origins[i - 1])) throw new Error('origins is not in order');
    for (const [kind, list] of Object.entries(lists)) {
      if (line[kind]?.length === 0) throw new Error(`${kind} is empty`);
      list.push(...(line[kind] ?? []));
    }
    for (const [id, name] of Object.entries(line.types ?? {})) types.set(id, name as string);
    for (const [result, name] of Object.entries(line.errors ?? {})) errors.set(result, name as string);
    answer.sizes.push(line.start.length);
    for (let row = 0; row < line.start.length; row++)
      answer.events.push(eventOf(line, row, { ...lists, types, errors } as Names));
  }
  const listed = Object.fromEntries(Object.entries(lists).map(([kind, list]) => [kind, list.length]));
  return { ...answer, listed: listed as ColumnAnswer['listed'] };
}

interface Names extends Record<'recordings' | 'threads' | 'whats' | 'owners', Line[]> {
  types: Map<string, string>;
  errors: Map<string, string>;
}

function eventOf(line: Line, row: number, { recordings, threads, whats, owners, types, errors }: Names): PlainEvent {
  const [recording, ...thread] = threads[Number(line.thread[row])];
  const [recordingId, node] = recordings[Number(recording)];
  const result = integerOf(line.result[row])!;
  return {
    event_id: `${recordingId}-${integerOf(line.number[row])!.toString(16).padStart(16, '0')}`,
    node,
    event_type: types.get(String(line.type[row]))!,
    timestamp_ns: BigInt(line.base_ns) + integerOf(line.start[row])!,
    duration_ns: integerOf(line.duration[row])!,
    thread,
    what: whats[Number(line.what[row])],
    owner: owners[Number(line.owner[row])],
    result,
    error: result < 0n ? errors.get(String(result))! : null,
    bytes: integerOf(line.bytes[row]),
    queue_ns: integerOf(line.queue[row]),
    origins: line.origins
      .filter(([of]: Line[]) => of === BigInt(row))
      .map(([, service, transaction, bytes]: Line[]) => [service, transaction, integerOf(bytes)]),
  };
}
