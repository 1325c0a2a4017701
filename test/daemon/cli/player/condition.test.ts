/** Tests conditions of `--break`: what they match, and the errors for conditions that make no sense. */
import fc from 'fast-check';
import { parseCondition } from '../../../../daemon/cli/player/condition.ts';
import type { ExactPlayedEvent } from '../../../../daemon/cli/player/remote_session.ts';
import { playedOf } from './fixture.ts';

const WRITE = playedOf(7, { duration_ns: 50_000_001n, error: 'ENOSPC', result: -28n, file: '/data/a b&c' } as never);
const BLOCK = {
  ...playedOf(8),
  event_type: 'block_io',
  device: 'sda',
  syscall: undefined,
} as unknown as ExactPlayedEvent;

test.each([
  'duration_ms>50',
  'duration_ms>=50.000001',
  'duration_ms=50.000001',
  'duration_ns<=50000001',
  'duration_ms>50 && error=ENOSPC&&result<0',
  'result=-28',
  'error!=null',
  'trace_id=null',
  'trace_id!=x',
  'event_type=sys_write',
  'file="/data/a b&c"',
  'attribution.quality=exact',
  'replay.after_timeout=false',
  'replay.index=7',
])('%s matches', (text) => {
  expect(parseCondition(text).matches(WRITE)).toBe(true);
});

test.each([
  'duration_ms>50.000001',
  'error=null',
  'error=EIO',
  'service_name!=shop',
  'trace_id=x',
  'duration_ms>50 && tid=1',
  'device=sda',
  'device!=sdb',
])('%s does not match', (text) => {
  expect(parseCondition(text).matches(WRITE)).toBe(false);
});

test('a field that only the other event type has matches nothing', () => {
  expect(parseCondition('syscall!=write').matches(BLOCK)).toBe(false);
  expect(parseCondition('device=sda').matches(BLOCK)).toBe(true);
});

test.each([
  ['duraton_ms>50', /no field duraton_ms; there are .*\bduration_ms, duration_ns\b.*\bsyscall\b/],
  ['origins=1', /no field origins/],
  ['comm>a', /comm is not a number: it has no order/],
  ['replay.after_timeout<true', /no order/],
  ['replay.after_timeout=yes', /never "yes"; it is true, false/],
  ['event_type=sys_wrote', /never "sys_wrote"; it is sys_write, block_io/],
  ['file_kind=folder', /it is regular, directory/],
  ['duration_ms>soon', /a number of milliseconds, not "soon"/],
  ['duration_ns>1.5', /an integer, not "1.5"/],
  ['duration_ms>0.0000001', /a number of milliseconds/],
  ['pid=null', /pid is never null/],
  ['queue_ns>null', /nothing is more or less than null/],
  ['', /cannot be read from "" on/],
  ['duration_ms', /cannot be read/],
  ['duration_ms==50', /cannot be read/],
  ['duration_ms>50 &&', /cannot be read from "" on/],
  ['duration_ms>50 || pid=1', /cannot be read from "duration_ms>50 \|\| pid=1" on/],
  ['duration_ms>50 && && pid=1', /cannot be read from " && pid=1" on/],
  ['file="\\x"', /is not a JSON string/],
])('%p is refused', (text, message) => {
  expect(() => parseCondition(text)).toThrow(message);
});

test('numbers of any size are compared exactly', () => {
  const int64 = fc.bigInt(0n, 2n ** 63n - 1n);
  fc.assert(
    fc.property(int64, int64, (a, b) => {
      const holds = (operator: string) =>
        parseCondition(`duration_ns${operator}${b}`).matches({ ...WRITE, duration_ns: a } as never);
      expect(['=', '!=', '>', '>=', '<', '<='].map(holds)).toEqual([a === b, a !== b, a > b, a >= b, a < b, a <= b]);
    }),
  );
});

test('any text for a field can be written as a JSON string', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (file) => {
      const condition = parseCondition(`file=${JSON.stringify(file)} && tid=101`);
      expect(condition.matches({ ...WRITE, file } as never)).toBe(true);
    }),
  );
});
