/** Generates the C side of the contract: `bpf/gen/events.h`. */
import { BLOCK_OPERATIONS } from './block_io.ts';
import { CONTEXT_FLAGS, CONTEXT_LOST } from './common.ts';
import { type FieldLayout, ORIGIN_OFFSETS, ORIGIN_SIZE, type RecordDefinition } from './define.ts';
import {
  ARGUMENTS_SIZE,
  CONTEXT_SCOPES,
  DEFINITIONS,
  FILE_FLAGS,
  MARKER_SIZE,
  PATH_SIZE,
  PROGRAM_FLAGS,
  PROGRAM_TEXT_SIZE,
  THREAD_RECORD_SIZE,
} from './definitions.ts';
import { ENVIRONMENT_NAME_WORDS, ENVIRONMENT_NAMES } from './environment_names.ts';
import { FILTER_FLAGS, FILTER_VERDICTS } from './filter.ts';
import { EVENTS } from './index.ts';
import { ORIGIN_SLOTS } from './kinds.ts';
import { KERNEL_LOSS_CAUSES, LOSS_CAUSES_MAX, LOSS_TYPES_MAX } from './losses.ts';
import { SYNC_SYSCALLS } from './sys_sync.ts';
import { WRITE_SYSCALLS } from './sys_write.ts';

const BANNER = '/* Generated from bpf/schema by `make gen`. Do not edit. */';

export function buildCHeader(): string {
  const records = [...EVENTS, ...DEFINITIONS];
  const prefixNames = (prefix: string, numbers: Readonly<Record<string, number>>) =>
    Object.fromEntries(Object.entries(numbers).map(([word, number]) => [`${prefix}_${word.toUpperCase()}`, number]));
  const constants = {
    ...Object.fromEntries(EVENTS.map((event) => [`EVENT_${event.name.toUpperCase()}`, event.id])),
    ...Object.fromEntries(DEFINITIONS.map((definition) => [definition.name.toUpperCase(), definition.id])),
    ...CONTEXT_FLAGS,
    CONTEXT_LOST,
    ...CONTEXT_SCOPES,
    ...PROGRAM_FLAGS,
    ...FILE_FLAGS,
    ...FILTER_FLAGS,
    ...FILTER_VERDICTS,
    ...KERNEL_LOSS_CAUSES,
    LOSS_TYPES_MAX,
    LOSS_CAUSES_MAX,
    MARKER_SIZE,
    PATH_SIZE,
    ARGUMENTS_SIZE,
    PROGRAM_TEXT_SIZE,
    THREAD_RECORD_SIZE,
    ENVIRONMENT_NAME_WORDS,
    ENVIRONMENT_NAMES: ENVIRONMENT_NAMES.length,
    ENVIRONMENT_TRACEPARENT: ENVIRONMENT_NAMES.indexOf('TRACEPARENT'),
    ORIGIN_SLOTS,
    ...prefixNames('BLOCK_OPERATION', BLOCK_OPERATIONS),
    ...prefixNames('CALL', { ...WRITE_SYSCALLS, ...SYNC_SYSCALLS }),
  };
  return `${[
    BANNER,
    '#ifndef KREPLAY_EVENTS_H',
    '#define KREPLAY_EVENTS_H',
    '',
    ...Object.entries(constants).map(([name, value]) => `#define ${name} ${value}`),
    '',
    '/* Names of environment variables and their `=`, as little-endian words; and which of their bytes count. */',
    'struct environment_name {',
    '\t__u64 words[ENVIRONMENT_NAME_WORDS];',
    '\t__u64 masks[ENVIRONMENT_NAME_WORDS];',
    '};',
    `#define ENVIRONMENT_NAME_TABLE {${ENVIRONMENT_NAMES.map(formatEnvironmentName).join(', ')}}`,
    '',
    '/* One owner of a block request. */',
    'struct event_origin {',
    '\t__u64 context_id;',
    '\t__u64 process_id;',
    '\t__u64 time_ns; /* CLOCK_BOOTTIME at which it wrote, or queued, what the request carries */',
    '\t__u32 bytes; /* 0: not known, of a journal that several wrote to */',
    '\t__u32 flags; /* CONTEXT_* bits */',
    '};',
    `_Static_assert(sizeof(struct event_origin) == ${ORIGIN_SIZE}, "event_origin");`,
    ...Object.entries(ORIGIN_OFFSETS).map(
      ([name, offset]) =>
        `_Static_assert(__builtin_offsetof(struct event_origin, ${name}) == ${offset}, "event_origin.${name}");`,
    ),
    '',
    '/* [record type][cause], added to atomically. */',
    'struct loss_counters {',
    '\t__u64 lost[LOSS_TYPES_MAX][LOSS_CAUSES_MAX];',
    '};',
    ...records.flatMap(formatCStruct),
    '',
    '#endif',
  ].join('\n')}\n`;
}

/** Returns whether the field takes any bytes in the record. */
const hasRoom = ({ size }: FieldLayout) => size > 0;

function formatCStruct(record: RecordDefinition): string[] {
  const tag = `struct ${record.name}`;
  return [
    '',
    `/* ${record.doc} */`,
    `${tag} {`,
    ...record.layout.filter(hasRoom).map(({ name, field }) => {
      const { type, count } = field.kind.c;
      return `\t${type} ${name}${count > 1 ? `[${count}]` : ''}; /* ${field.doc} */`;
    }),
    '};',
    `_Static_assert(sizeof(${tag}) == ${record.size}, "${record.name}");`,
    ...record.layout
      .filter(hasRoom)
      .map(
        ({ name, offset }) =>
          `_Static_assert(__builtin_offsetof(${tag}, ${name}) == ${offset}, "${record.name}.${name}");`,
      ),
  ];
}

function formatEnvironmentName(name: string): string {
  const bytes = Buffer.alloc(ENVIRONMENT_NAME_WORDS * 8);
  const masks = Buffer.alloc(bytes.length);
  const size = bytes.write(`${name}=`);
  if (size < name.length + 1) throw new Error(`${name} is longer than ENVIRONMENT_NAME_WORDS allows`);
  masks.fill(0xff, 0, size);
  return `{${formatCWords(bytes)}, ${formatCWords(masks)}}`;
}

function formatCWords(bytes: Buffer): string {
  const words = Array.from({ length: bytes.length / 8 }, (_, i) => `0x${bytes.readBigUInt64LE(i * 8).toString(16)}ull`);
  return `{${words.join(', ')}}`;
}
