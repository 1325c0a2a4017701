/** Tests that the tracepoints named in the programs equal those that are checked before the programs load. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { listLayerStates } from '../../../agent/capture/layers.ts';
import { findMissingFeatures, findWrongTracepoints } from '../../../agent/capture/requirements.ts';
import { findTracepointProblems, REQUIRED_TRACEPOINTS } from '../../../agent/capture/tracepoints.ts';

const BPF = join(import.meta.dirname, '../../../bpf');

/** Tracepoint -> the most arguments that a program reads of it. */
function readBySources(): Map<string, number> {
  const read = new Map<string, number>();
  for (const file of readdirSync(BPF).filter((name) => name.endsWith('.bpf.h'))) {
    const source = readFileSync(join(BPF, file), 'utf8');
    for (const [, tracepoint, args] of source.matchAll(/SEC\("tp_btf\/(\w+)"\)\nint BPF_PROG\(\w+, ([^)]*)\)/g)) {
      read.set(tracepoint!, Math.max(read.get(tracepoint!) ?? 0, args!.split(',').length));
    }
  }
  return read;
}

test('every tracepoint of the programs is required with the arguments that are read, or belongs to a layer', () => {
  const sources = readBySources();
  expect(sources.size).toBeGreaterThan(REQUIRED_TRACEPOINTS.length);
  for (const { name, reads } of REQUIRED_TRACEPOINTS) expect([name, sources.get(name)]).toEqual([name, reads]);
  const required = new Set(REQUIRED_TRACEPOINTS.map(({ name }) => name));
  expect([...sources.keys()].filter((name) => !required.has(name)).sort()).toEqual([
    ...[
      'block_dirty_buffer',
      'iomap_iter',
      'jbd2_end_commit',
      'jbd2_handle_restart',
      'jbd2_handle_start',
      'jbd2_start_commit',
    ],
    ...['writeback_dirty_folio', 'writeback_dirty_page'],
  ]);
});

test('this kernel has all that is required', () => {
  expect([...findMissingFeatures(), ...findWrongTracepoints()]).toEqual([]);
});

test('a tracepoint that is missing, has too few arguments or has other leading ones is reported', () => {
  expect(
    findTracepointProblems([
      { name: 'no_such', reads: 1 },
      { name: 'no_such', module: 'no_such_module', reads: 1 },
      { name: 'sys_enter', reads: 3 },
      { name: 'sys_enter', reads: 1, noMore: true },
      { name: 'sys_enter', reads: 1 },
    ]),
  ).toEqual([
    'no tracepoint no_such',
    'no tracepoint no_such',
    'a tracepoint sys_enter with 2 arguments instead of 3',
    'a tracepoint sys_enter with 2 arguments instead of 1',
    undefined,
  ]);
});

test('a disabled layer states its reason', () => {
  const [marker, block] = ['marker', 'block_cgroup'].map((layer) =>
    listLayerStates(['marker'], 'v1_memory').find(({ name }) => name === layer),
  );
  expect(marker).toEqual({ name: 'marker', on: false, reason: 'switched off' });
  expect(block).toMatchObject({ on: false, reason: 'cgroup v1 does not charge write-back' });
});
