/** Tests that a recording whose header says that its pages have no checksums is not read without them. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from '../../../../agent/recording/format/database.ts';
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { recordedOn } from '../../../daemon/recorded.ts';

/** Place of the byte that says how many bytes of each page are for checksums. */
const RESERVED_AT = 20;

test('one flipped bit in the header does not turn off all checks', () => {
  const folder = recordedOn('web-1', [{ at: 1n, duration: 1n, file: '/var/log/a' }]);
  const bytes = readFileSync(join(folder, 'recording.kreplay'));
  expect(bytes[RESERVED_AT]).toBe(8);
  for (let bit = 0; bit < 8; bit++) {
    const flipped = Buffer.from(bytes);
    flipped[RESERVED_AT]! ^= 1 << bit;
    const copy = join(folder, `flipped-${bit}.kreplay`);
    writeFileSync(copy, flipped);
    expect(() => openDatabase(copy, { readonly: true }).close()).toThrow();
    expect(() => openReader(copy)).toThrow(/checksum/);
  }
});
