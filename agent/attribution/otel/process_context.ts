/**
 * Reads OpenTelemetry's process context (OTEP 4719, version 2), in which a process publishes its attributes. A mapping
 * with one of the names below contains a header, which points to a message
 * (opentelemetry/proto/processcontext/v1development).
 *
 *   0           8         12        16                24        32
 *   "OTEL_CTX"  version   payload   time of           payload
 *               u32       size u32  publication u64   pointer
 *
 * The publisher sets the time to 0 before it changes the context, and to a new time afterwards.
 */
import { type Attributes, type AttributeValue, readAttribute } from './attributes.ts';
import { createDeviceCheck } from './local_devices.ts';
import { found, missing, type Outcome, type ProcessReason } from './outcome.ts';
import { type Mapping, parseMaps, readMaps } from './process_maps.ts';
import { openProcessMemory, type ProcessMemory } from './process_memory.ts';
import { type MessageFields, readMessage } from './protobuf.ts';

export interface ProcessContext {
  /** Time of publication (the publisher's CLOCK_BOOTTIME); differs after every change. */
  publishedAtNs: bigint;
  /** Attributes of the resource, such as `service.name`. */
  resource: Attributes;
  /** Attributes that are meant for readers such as the agent and are not part of the resource. */
  attributes: Attributes;
  /** Names of the attributes in thread records, by index; undefined if the threads publish no readable records. */
  threadKeys: readonly string[] | undefined;
}

export type ProcessContextReason =
  | ProcessReason
  | 'not_published'
  /** The publisher changed the context during each attempt: try again. */
  | 'updating'
  | 'unsupported_version'
  /** The payload is not at the address in the header, is too large, or is in a file system that may block. */
  | 'unreadable'
  | 'malformed';

/**
 * Names of the mapping in /proc/PID/maps: of a memfd, of a memfd's mapping that prctl(2) has named, and of anonymous
 * memory that prctl(2) has named.
 */
const NAMES = ['/memfd:OTEL_CTX (deleted)', '/memfd:OTEL_CTX', '[anon_shmem:OTEL_CTX]', '[anon:OTEL_CTX]'];
const MAPPINGS_MAX = 4;
const ATTEMPTS_MAX = 8;

const HEADER_BYTES = 32;
const SIGNATURE = 'OTEL_CTX';
const VERSION = 2;
const VERSION_AT = 8;
const SIZE_AT = 12;
const PUBLISHED_AT = 16;
const POINTER_AT = 24;
/** Maximum size of a payload, the same as in OpenTelemetry's own reader. */
export const PAYLOAD_BYTES_MAX = 1 << 16;

/**
 * Supported schemas of thread records; `tlsdesc_v1_dev` is to be renamed to `tls_v1`. Other schemas, such as those of
 * Go and Node, use no thread-local variable.
 */
const THREAD_SCHEMAS: readonly AttributeValue[] = ['tlsdesc_v1_dev', 'tls_v1'];

export function readProcessContext(pid: number): Outcome<ProcessContext, ProcessContextReason> {
  const maps = readMaps(pid);
  if (maps.value === undefined) return maps;
  // In the usual case, no mapping has the name, so nothing is parsed.
  if (!maps.value.includes(SIGNATURE)) return missing('not_published');
  const mappings = parseMaps(maps.value);
  const published = mappings.filter(isPublished).slice(0, MAPPINGS_MAX);
  if (published.length === 0) return missing('not_published');
  const memory = openProcessMemory(pid, mappings, createDeviceCheck());
  if (memory.value === undefined) return memory;
  try {
    return readFirst(memory.value, published);
  } finally {
    memory.value.close();
  }
}

function isPublished({ start, end, executable, path }: Mapping): boolean {
  return !executable && end - start >= HEADER_BYTES && NAMES.includes(path);
}

/**
 * Reads the first mapping with a valid context. There should be only one mapping, but the process may be about to
 * publish another one.
 */
function readFirst(memory: ProcessMemory, mappings: readonly Mapping[]): Outcome<ProcessContext, ProcessContextReason> {
  let outcome: Outcome<ProcessContext, ProcessContextReason> = missing('not_published');
  for (const { start } of mappings) {
    outcome = readAt(memory, start);
    if (outcome.value !== undefined) break;
  }
  return outcome;
}

interface Snapshot {
  publishedAtNs: bigint;
  payload: Uint8Array;
}

export function readAt(memory: ProcessMemory, address: number): Outcome<ProcessContext, ProcessContextReason> {
  let snapshot: Outcome<Snapshot, ProcessContextReason> = missing('updating');
  for (let attempt = 0; attempt < ATTEMPTS_MAX && snapshot.reason === 'updating'; attempt++) {
    snapshot = readSnapshot(memory, address);
  }
  if (snapshot.value === undefined) return snapshot;
  const { publishedAtNs, payload } = snapshot.value;
  const context = decodeProcessContext(payload);
  return context ? found({ publishedAtNs, ...context }) : missing('malformed');
}

/**
 * Reads the header and the payload, and compares the time before and after, because the publisher may change them. The
 * time is read separately: within one read, the order in which the kernel copies the words is unspecified.
 */
function readSnapshot(memory: ProcessMemory, address: number): Outcome<Snapshot, ProcessContextReason> {
  const before = readTime(memory, address);
  const header = new DataView(new ArrayBuffer(HEADER_BYTES));
  const hasHeader = memory.read(address, new Uint8Array(header.buffer));
  const payload = hasHeader ? readPayload(memory, header) : undefined;
  const after = readTime(memory, address);
  if (before === undefined || !hasHeader || after === undefined) return missing('unreadable');
  if (before === 0n || after !== before) return missing('updating');
  if (readSignature(header) !== SIGNATURE) return missing('not_published');
  if (header.getUint32(VERSION_AT, true) !== VERSION) return missing('unsupported_version');
  return payload ? found({ publishedAtNs: before, payload }) : missing('unreadable');
}

function readTime(memory: ProcessMemory, address: number): bigint | undefined {
  const bytes = new Uint8Array(8);
  return memory.read(address + PUBLISHED_AT, bytes) ? new DataView(bytes.buffer).getBigUint64(0, true) : undefined;
}

function readSignature(header: DataView): string {
  return Buffer.from(header.buffer, 0, SIGNATURE.length).toString('latin1');
}

function readPayload(memory: ProcessMemory, header: DataView): Uint8Array | undefined {
  const size = header.getUint32(SIZE_AT, true);
  const pointer = Number(header.getBigUint64(POINTER_AT, true));
  if (size === 0 || size > PAYLOAD_BYTES_MAX || !Number.isSafeInteger(pointer + size)) return undefined;
  const payload = new Uint8Array(size);
  return memory.read(pointer, payload) ? payload : undefined;
}

const RESOURCE = 1;
const ATTRIBUTE = 2;
const PROCESS_CONTEXT: MessageFields = new Map([
  [RESOURCE, 'bytes'],
  [ATTRIBUTE, 'bytes'],
]);
const RESOURCE_ATTRIBUTE = 1;
const RESOURCE_MESSAGE: MessageFields = new Map([[RESOURCE_ATTRIBUTE, 'bytes']]);

/** Decodes the payload of a process context; returns undefined if the payload is malformed. */
export function decodeProcessContext(payload: Uint8Array): Omit<ProcessContext, 'publishedAtNs'> | undefined {
  const resource = new Map<string, AttributeValue>();
  const attributes = new Map<string, AttributeValue>();
  const isWell = readMessage(payload, PROCESS_CONTEXT, (field, content) =>
    field === ATTRIBUTE
      ? readAttribute(content as Uint8Array, attributes)
      : readMessage(content as Uint8Array, RESOURCE_MESSAGE, (_, one) => readAttribute(one as Uint8Array, resource)),
  );
  return isWell ? { resource, attributes, threadKeys: parseThreadKeys(attributes) } : undefined;
}

/**
 * Parses OTEP 4947's map of names. One unusable name makes the whole map unusable, because records refer to names by
 * index.
 */
function parseThreadKeys(attributes: Attributes): readonly string[] | undefined {
  if (!THREAD_SCHEMAS.includes(attributes.get('threadlocal.schema_version') ?? null)) return undefined;
  const keys = attributes.get('threadlocal.attribute_key_map') ?? [];
  return Array.isArray(keys) && keys.every((key) => typeof key === 'string' && key !== '') ? keys : undefined;
}
