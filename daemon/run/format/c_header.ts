/** Generates the C declarations of the file formats: `native/runner/gen/format.h`. */
import type { StructLayout } from './layout.ts';
import {
  EVENT_FLAGS,
  OPS,
  PATH_KINDS,
  PLAN_FLAGS,
  PLAN_MAGIC,
  planEvent,
  planHeader,
  planSlot,
  planStream,
  SIZE_UNKNOWN,
  STREAM_FLAGS,
} from './plan_file.ts';
import { CALL_FLAGS, MATCH_KINDS, NONE, REPORT_MAGIC, reportCall, reportHeader } from './report_file.ts';

const BANNER = '/* Generated from daemon/run/format by `make gen`. Do not edit. */';

export function buildCHeader(): string {
  return `${[
    BANNER,
    '#ifndef KREPLAY_RUNNER_FORMAT_H',
    '#define KREPLAY_RUNNER_FORMAT_H',
    '',
    '#include <stddef.h>',
    '#include <stdint.h>',
    '',
    '/* As little-endian words. */',
    `#define PLAN_MAGIC ${formatWord(PLAN_MAGIC)}`,
    `#define REPORT_MAGIC ${formatWord(REPORT_MAGIC)}`,
    '',
    ...formatConstants('OP', OPS),
    `#define OP_COUNT ${Object.keys(OPS).length}`,
    '',
    ...formatConstants('PATH_KIND', PATH_KINDS),
    `#define PATH_KIND_COUNT ${Object.keys(PATH_KINDS).length}`,
    '',
    ...formatConstants('EVENT_FLAG', EVENT_FLAGS),
    ...formatConstants('STREAM_FLAG', STREAM_FLAGS),
    ...formatConstants('PLAN_FLAG', PLAN_FLAGS),
    `#define SIZE_UNKNOWN ${SIZE_UNKNOWN}u`,
    '',
    ...formatConstants('HOW', MATCH_KINDS),
    ...formatConstants('CALL_FLAG', CALL_FLAGS),
    `#define NONE ${NONE}u`,
    ...[planHeader, planStream, planSlot, planEvent, reportHeader, reportCall].flatMap(formatCStruct),
    '',
    '#endif',
  ].join('\n')}\n`;
}

function formatWord(magic: Buffer): string {
  return `0x${magic.readBigUInt64LE().toString(16)}ull`;
}

function formatConstants(prefix: string, values: Readonly<Record<string, number>>): string[] {
  return Object.entries(values).map(([name, value]) => `#define ${prefix}_${name.toUpperCase()} ${value}`);
}

function formatCStruct({ name, doc, fields, size, offsets }: StructLayout): string[] {
  const tag = `struct ${name}`;
  return [
    '',
    `/* ${doc} */`,
    `${tag} {`,
    ...Object.entries(fields).map(
      ([fieldName, field]) => `\tuint${field.width.slice(1)}_t ${fieldName}; /* ${field.doc} */`,
    ),
    '};',
    `_Static_assert(sizeof(${tag}) == ${size}, "${name}");`,
    ...Object.entries(offsets).map(
      ([fieldName, offset]) => `_Static_assert(offsetof(${tag}, ${fieldName}) == ${offset}, "${name}.${fieldName}");`,
    ),
  ];
}
