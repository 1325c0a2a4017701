/**
 * Tests what is generated from the schema: the C header is up to date and matches what a compiler makes of it, and the
 * README's tables name the API's fields.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { apiEventSchema } from '../../../bpf/schema/api.ts';
import { buildCHeader } from '../../../bpf/schema/c_header.ts';
import { ORIGIN_OFFSETS, ORIGIN_SIZE } from '../../../bpf/schema/define.ts';
import { DEFINITIONS } from '../../../bpf/schema/definitions.ts';
import { formatEventTables, formatLossTable, replaceGenerated } from '../../../bpf/schema/docs.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';

const ROOT = join(import.meta.dirname, '../../..');
const RECORDS = [...EVENTS, ...DEFINITIONS];

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'kreplay-schema-'));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Compiles with the Makefile's flags for BPF programs. */
function compile(source: string): string {
  const file = join(folder, 'layout.bpf.c');
  writeFileSync(file, source);
  const flags = '-target bpf -g -O2 -Wall -Wextra -Werror -I/usr/include/x86_64-linux-gnu'.split(' ');
  execFileSync('clang', [...flags, '-I', folder, '-c', file, '-o', `${file}.o`], { stdio: 'pipe', encoding: 'utf8' });
  return `${file}.o`;
}

interface BtfStruct {
  kind: string;
  name: string;
  size: number;
  members: { name: string; bits_offset: number }[];
}

/** Struct name -> its size and its members' byte offsets, from the object's BTF. */
function structsIn(object: string): Map<string, { size: number; offsets: Record<string, number> }> {
  const json = execFileSync('/usr/sbin/bpftool', ['-j', 'btf', 'dump', 'file', object], {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  const { types } = JSON.parse(json) as { types: BtfStruct[] };
  return new Map(
    types
      .filter(({ kind }) => kind === 'STRUCT')
      .map(({ name, size, members }) => [
        name,
        { size, offsets: Object.fromEntries(members.map((member) => [member.name, member.bits_offset / 8])) },
      ]),
  );
}

test('bpf/gen/events.h matches the schema; `make gen` writes it', () => {
  expect(readFileSync(join(ROOT, 'bpf/gen/events.h'), 'utf8')).toBe(buildCHeader());
});

test('the header compiles, and the compiler lays out every record as the schema does', () => {
  writeFileSync(join(folder, 'events.h'), buildCHeader());
  const variables = ['event_origin', ...RECORDS.map(({ name }) => name)].map((tag) => `struct ${tag} ${tag}_;`);
  const structs = structsIn(compile(`#include <linux/types.h>\n#include "events.h"\n${variables.join('\n')}\n`));
  expect(structs.get('event_origin')).toEqual({ size: ORIGIN_SIZE, offsets: ORIGIN_OFFSETS });
  for (const { name, size, layout } of RECORDS) {
    const withRoom = layout.filter((field) => field.size > 0);
    const offsets = Object.fromEntries(withRoom.map((field) => [field.name, field.offset]));
    expect({ name, ...structs.get(name) }).toEqual({ name, size, offsets });
  }
});

test('a field at another offset in C does not compile', () => {
  const shifted = buildCHeader().replace('\t__u64 sector;', '\t__u32 before_sector;\n\t__u64 sector;');
  writeFileSync(join(folder, 'events.h'), shifted);
  expect(() => compile('#include <linux/types.h>\n#include "events.h"\n')).toThrow('block_io.sector');
});

/** Types that no map holds are not in a BPF object's BTF; the header itself asserts their layout. */
test.each(['context_definition', 'file_definition', 'event_origin'])(
  "the built BPF object has the schema's %s",
  (tag) => {
    const built = structsIn(join(ROOT, 'build/bpf/kreplay.bpf.o')).get(tag);
    const definition = DEFINITIONS.find(({ name }) => name === tag);
    const offsets = definition
      ? Object.fromEntries(definition.layout.map(({ name, offset }) => [name, offset]))
      : ORIGIN_OFFSETS;
    expect(built).toEqual({ size: definition?.size ?? ORIGIN_SIZE, offsets });
  },
);

/** The first column of each table, by table title. */
function tableRows(): Map<string, string[]> {
  const sections = formatEventTables().split(/^\*\*/m).slice(1);
  return new Map(
    sections.map((section) => [
      /^`?([^`*]+)/.exec(section)![1]!,
      [...section.matchAll(/^\| `(\w+)` \|/gm)].map((match) => match[1]!),
    ]),
  );
}

test('the event tables name every field of the API and no other', () => {
  const tables = tableRows();
  const common = tables.get('Every event')!;
  for (const schema of apiEventSchema.options) {
    const type = schema.shape.event_type.value;
    const named = [...common, ...tables.get(type)!];
    expect(named.toSorted()).toEqual(Object.keys(schema.shape).toSorted());
  }
  expect([...tables.keys()]).toEqual(['Every event', ...EVENTS.map(({ name }) => name)]);
});

test('every cell of the event tables has text, in one line', () => {
  const rows = formatEventTables()
    .split('\n')
    .filter((line) => line.startsWith('|'));
  expect(rows.length).toBeGreaterThan(20);
  for (const row of rows) expect(row).toMatch(/^\|[^|]+\|[^|]+\|$/);
});

describe('replaceGenerated', () => {
  const document = 'before\n<!-- generated:events -->\nold\n<!-- /generated:events -->\nafter\n';

  test('replaces the text between the markers and keeps the rest', () => {
    const once = replaceGenerated(document, 'events', 'new');
    expect(once).toBe('before\n<!-- generated:events -->\nnew\n<!-- /generated:events -->\nafter\n');
    expect(replaceGenerated(once, 'events', 'new')).toBe(once);
  });

  test.each([
    ['no markers', 'text'],
    ['no closing marker', 'a <!-- generated:events --> b'],
    ['a closing marker before the opening one', '<!-- /generated:events --> <!-- generated:events -->'],
    ['other markers', '<!-- generated:errors --><!-- /generated:errors -->'],
    ['the markers twice', document + document],
    ['two closing markers', `${document}<!-- /generated:events -->`],
  ])('refuses a document with %s', (_, text) => {
    expect(() => replaceGenerated(text, 'events', 'new')).toThrow('<!-- generated:events -->');
  });
});

test('the tables of agent/docs/events.md match the schema; `make gen` writes them', () => {
  const page = readFileSync(join(ROOT, 'agent/docs/events.md'), 'utf8');
  expect(replaceGenerated(replaceGenerated(page, 'events', formatEventTables()), 'losses', formatLossTable())).toBe(
    page,
  );
});
