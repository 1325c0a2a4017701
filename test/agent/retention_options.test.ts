/** Tests the sizes that operators may set, and the defaults. */
import { statfsSync } from 'node:fs';
import { parseBytes } from '../../agent/config/bytes.ts';
import { chooseRetentionLimits } from '../../agent/retention_options.ts';

test.each([
  ['8388608', 8_388_608],
  ['500MB', 500_000_000],
  ['1.5 GiB', 1_610_612_736],
  ['2TB', 2e12],
  ['0', 0],
  ['', undefined],
  ['10g', undefined],
  ['-1MB', undefined],
  ['1e9', undefined],
  ['999999999999999TB', undefined],
])('%j is %p bytes', (text, bytes) => {
  expect(parseBytes(text)).toBe(bytes);
});

test('without a size, a recording takes a tenth of its disk, and 10 GB at most', () => {
  const { blocks, bsize } = statfsSync('/tmp');
  expect(chooseRetentionLimits({}, '/tmp')).toEqual({ bytes: Math.min(10e9, Math.floor((blocks * bsize) / 10)) });
  expect(chooseRetentionLimits({ retainBytes: 9e6, retainAge: 5n }, '/tmp')).toEqual({ bytes: 9e6, ageNs: 5n });
});
