/*
 * Tests every method in every state of its object: what is allowed, and the error code of what is not. Handles taken
 * before close() are called after it.
 */
import { type BpfMap, BpfObject, type RingReader } from 'libbpf-ts';
import { compileBpf, thrownBy, u32, u64 } from './compile.ts';

const STATES = ['new', 'failed', 'loaded', 'attached', 'closed'] as const;
type State = (typeof STATES)[number];

/** A method, and per state 'ok' or the code that it throws. */
type Row = [method: string, call: (object: BpfObject) => unknown, ...Record<State, string>[]];

const anywhere = { new: 'ok', failed: 'ok', loaded: 'ok', attached: 'ok', closed: 'ERR_CLOSED' };
const beforeLoad = {
  new: 'ok',
  failed: 'ERR_ALREADY_LOADED',
  loaded: 'ERR_ALREADY_LOADED',
  attached: 'ERR_ALREADY_LOADED',
  closed: 'ERR_CLOSED',
};
const afterLoad = {
  new: 'ERR_NOT_LOADED',
  failed: 'ERR_NOT_LOADED',
  loaded: 'ok',
  attached: 'ok',
  closed: 'ERR_CLOSED',
};

const matrix: Row[] = [
  ['programs', (object) => object.programs, anywhere],
  ['maps', (object) => object.maps, anywhere],
  ['variables', (object) => object.variables, anywhere],
  ['setRunStats', (object) => object.setRunStats(false), anywhere],
  ['setReadOnly', (object) => object.setReadOnly('wide', 1), beforeLoad],
  ['setAutoload', (object) => object.setAutoload('on_ftruncate', true), beforeLoad],
  ['setAutocreate', (object) => object.setAutocreate('table', true), beforeLoad],
  ['setMaxEntries', (object) => object.setMaxEntries('table', 64), beforeLoad],
  ['load', (object) => object.load(), beforeLoad],
  ['attach', (object) => object.attach(), afterLoad],
  ['attach one', (object) => object.attach('on_ftruncate'), afterLoad],
  ['detach', (object) => object.detach(), afterLoad],
  ['detach one', (object) => object.detach('on_ftruncate'), afterLoad],
  ['map', (object) => object.map('table'), afterLoad],
  ['ring', (object) => object.ring('events'), afterLoad],
  ['testRun', (object) => object.testRun('read_variables', { ctxIn: new Uint8Array(32) }), afterLoad],
  ['iterate', (object) => object.iterate('tasks'), afterLoad],
  ['programStats', (object) => object.programStats(), afterLoad],
  ['close', (object) => object.close(), { ...anywhere, closed: 'ok' }],
  ['close twice', (object) => [object.close(), object.close()], { ...anywhere, closed: 'ok' }],
];

let file: string;
let object: BpfObject;

beforeAll(() => {
  file = compileBpf('hooks');
});

afterEach(() => object.close());

function inState(state: State): BpfObject {
  object = BpfObject.open(file);
  if (state === 'failed') object.setMaxEntries('table', 0);
  if (state === 'failed') expect(thrownBy(() => object.load()).code).toBe('EINVAL');
  if (state === 'loaded' || state === 'attached') object.load();
  if (state === 'attached') object.attach();
  if (state === 'closed') object.close();
  return object;
}

describe.each(STATES)('an object that is %s', (state) => {
  test.each(matrix)('%s', (_method, call, expected) => {
    const error = thrownBy(() => call(inState(state)));
    expect(error.code ?? 'ok').toBe(expected![state]);
  });
});

describe('handles of a closed object', () => {
  const handles: [method: string, call: (map: BpfMap, ring: RingReader) => unknown][] = [
    ['map.get', (map) => map.get(u32(1))],
    ['map.set', (map) => map.set(u32(1), u64(1n))],
    ['map.delete', (map) => map.delete(u32(1))],
    ['map.keys', (map) => map.keys()],
    ['map.entries', (map) => map.entries()],
    ['ring.drain', (_map, ring) => ring.drain(new Uint8Array(64))],
    ['ring.pendingBytes', (_map, ring) => ring.pendingBytes()],
    ['ring.takePeakBytes', (_map, ring) => ring.takePeakBytes()],
  ];

  test.each(handles)('%s throws ERR_CLOSED', (_method, call) => {
    inState('attached');
    const map = object.map('table');
    const ring = object.ring('events');
    expect(thrownBy(() => call(map, ring)).code).toBeUndefined();
    object.close();
    expect(thrownBy(() => call(map, ring)).code).toBe('ERR_CLOSED');
  });

  test('ring.close has no effect', () => {
    inState('loaded');
    const ring = object.ring('events');
    object.close();
    ring.close();
    ring.close();
    expect(thrownBy(() => ring.drain(new Uint8Array(64))).code).toBe('ERR_CLOSED');
  });

  test('an iteration in progress ends with ERR_CLOSED', () => {
    inState('loaded');
    const map = object.map('table');
    map.set(u32(1), u64(1n));
    map.set(u32(2), u64(1n));
    const entries = map.entries()[Symbol.iterator]();
    entries.next();
    object.close();
    expect(thrownBy(() => entries.next()).code).toBe('ERR_CLOSED');
  });
});

test('unknown names throw ERR_NOT_FOUND', () => {
  inState('new');
  for (const call of [
    () => object.setAutoload('nothing', true),
    () => object.setAutocreate('nothing', true),
    () => object.setMaxEntries('nothing', 1),
  ]) {
    expect(thrownBy(call).code).toBe('ERR_NOT_FOUND');
  }
  object.load();
  for (const call of [
    () => object.attach('nothing'),
    () => object.detach('nothing'),
    () => object.testRun('nothing'),
  ]) {
    expect(thrownBy(call).code).toBe('ERR_NOT_FOUND');
  }
});
