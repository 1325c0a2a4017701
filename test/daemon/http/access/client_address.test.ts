/** Tests which addresses share a limit because they count as one client. */
import fc from 'fast-check';
import { createFailureLimit } from '../../../../daemon/http/access/bearer.ts';
import { isLocalClient, toClientKey } from '../../../../daemon/http/access/client_address.ts';

test.each([
  ['10.1.2.3', '10.1.2.3'],
  ['::ffff:10.1.2.3', '10.1.2.3'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8:1:2::1', '2001:db8:1:2'],
  ['2001:db8::1', '2001:db8:0:0'],
  ['fe80::1%eth0', 'fe80:0:0:0'],
  ['::1', '0:0:0:0'],
  [undefined, 'unix'],
])('%s is counted as %s', (address, client) => {
  expect(toClientKey(address)).toBe(client);
});

test('addresses of one 64-bit network are one client in any notation', () => {
  const group = fc.integer({ min: 1, max: 0xffff }).map((value) => value.toString(16));
  const half = fc.array(group, { minLength: 4, maxLength: 4 });
  fc.assert(
    fc.property(half, half, fc.nat(3), (network, host, zeros) => {
      const full = [...network, ...host.map((part, i) => (i < zeros ? '0' : part))].join(':');
      const short = zeros > 1 ? `${network.join(':')}::${host.slice(zeros).join(':')}` : full;
      expect(toClientKey(short)).toBe(network.join(':'));
      expect(toClientKey(full)).toBe(network.join(':'));
    }),
  );
});

test.each([
  ['127.0.0.1', true],
  ['127.9.9.9', true],
  ['::1', true],
  ['::ffff:127.0.0.1', true],
  [undefined, true],
  ['10.0.0.1', false],
  ['::ffff:10.0.0.1', false],
  ['::2', false],
  ['127::1', false],
])('%s is local: %s', (address, local) => {
  expect(isLocalClient(address)).toBe(local);
});

test('any number of failing clients takes bounded memory', () => {
  const failures = createFailureLimit(() => 0);
  for (let i = 0; i < 100_000; i++) failures.note(`client-${i}`);
  expect(failures.size).toBe(4096);
});

test('one failing client is slowed down, and others are not', () => {
  const failures = createFailureLimit(() => 0);
  const waits = Array.from({ length: 12 }, () => failures.note('one'));
  expect(waits).toEqual([...Array(10).fill(0), 6, 6]);
  expect(failures.note('other')).toBe(0);
});
