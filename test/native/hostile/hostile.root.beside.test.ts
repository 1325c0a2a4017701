/*
 * Tests object files that no compiler makes: whatever is in one, opening and loading it works or throws an error with a
 * code. Each test uses a child process, so that a crash only ends the child.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BpfObject } from 'libbpf-ts';
import { times } from '../../repeats.ts';
import { compileBpf, root, thrownBy } from '../compile.ts';
import { mutated, regionsOf } from './mutations.ts';

const OPENED = times(600);
/** Fewer objects are loaded than opened, because each load takes milliseconds. */
const LOADED = Math.ceil(OPENED / 16);
const TIMEOUT_MS = 3_600_000;
/** The two constants below are from linux/btf.h. */
const BTF_TYPE_BYTES = 12;
const BTF_KIND_STRUCT = 4;
const OBJECTS = ['hooks', 'records', 'busy'];

test.each(
  OBJECTS.flatMap(
    (name) =>
      [
        [name, 'open', OPENED],
        [name, 'load', LOADED],
      ] as const,
  ),
)(
  '%s, mutated: %s of %d',
  (name, work, count) => {
    const file = compileBpf(name);
    const status = join(root, `build/test/hostile-${name}-${work}`);
    const opener = join(import.meta.dirname, 'opener.ts');
    const { signal, stdout, stderr } = spawnSync(process.execPath, [opener, file, status, '0', String(count), work], {
      encoding: 'utf8',
      timeout: TIMEOUT_MS,
    });
    expect({ signal, stderr, seed: signal && readFileSync(status, 'utf8') }).toEqual({
      signal: null,
      stderr: '',
      seed: null,
    });
    const codes = JSON.parse(stdout) as Record<string, number>;
    expect(Object.values(codes).reduce((sum, times) => sum + times, 0)).toBe(count);
    // Some changes must be in bytes that nothing reads, others in bytes that every reader checks.
    expect(codes.none).toBeGreaterThan(count / 10);
    expect(codes.ERR_BPF_FORMAT).toBeGreaterThan(count / 20);
  },
  TIMEOUT_MS,
);

describe('invalid type information', () => {
  /** Offset in the file of the first type, directly after the header of .BTF. */
  function typesOf(file: Uint8Array): number {
    const text = Buffer.from(file);
    const magic = Buffer.from([0x9f, 0xeb, 0x01, 0x00, 24, 0, 0, 0]);
    return text.indexOf(magic) + 24;
  }

  /** Id and offset of the first struct; only pointers, integers, arrays and typedefs may precede it. */
  function firstStruct(view: DataView, types: number): { id: number; at: number } {
    const restBytes: Readonly<Record<number, number>> = { 1: 4, 2: 0, 3: 12, 8: 0 };
    for (let id = 1, at = types; ; id++) {
      const kind = (view.getUint32(at + 4, true) >> 24) & 31;
      if (kind === BTF_KIND_STRUCT) return { id, at };
      at += BTF_TYPE_BYTES + restBytes[kind]!;
    }
  }

  function opened(change: (view: DataView, types: number) => void) {
    const file = new Uint8Array(readFileSync(compileBpf('hooks')));
    change(new DataView(file.buffer), typesOf(file));
    return thrownBy(() => BpfObject.open(file).close());
  }

  test('opens unchanged', () => {
    expect(opened(() => {})).toEqual({});
  });

  test.each<[string, (view: DataView, types: number) => void]>([
    ['a type that does not exist', (view, types) => view.setUint32(types + 8, 0x7fffffff, true)],
    ['a name beyond all names', (view, types) => view.setUint32(types, 0x7fffffff, true)],
    [
      'a pointer that becomes a typedef of itself',
      (view, types) => {
        view.setUint32(types + 4, 8 << 24, true);
        view.setUint32(types + 8, 1, true);
      },
    ],
    [
      'a struct that holds itself',
      (view, types) => {
        const { id, at } = firstStruct(view, types);
        view.setUint32(at + BTF_TYPE_BYTES + 4, id, true);
      },
    ],
    ['a type of no kind', (view, types) => view.setUint32(types + 4, 31 << 24, true)],
    ['more types than fit', (view, types) => view.setUint32(types - 12, 0xfffffff0, true)],
  ])('%s', (_what, change) => {
    const { name, code, message } = opened(change);
    expect([name, code]).toEqual(['BpfError', 'ERR_BPF_FORMAT']);
    expect(message).toMatch(/type information/);
  });
});

test('a seed makes the same file every time', () => {
  const file = new Uint8Array(readFileSync(compileBpf('hooks')));
  const change = { region: 3, at: 0.5, kind: 'word', word: 7, any: 0, from: 0 } as const;
  const made = () => mutated(file, regionsOf(file), { changes: [change], cut: 0.75 });
  expect(made()).toEqual(made());
  expect(made()).toHaveLength(Math.floor(file.length * 0.75));
});
