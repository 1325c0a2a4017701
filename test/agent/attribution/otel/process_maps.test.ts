/** Tests mappings as the kernel prints them, with misleading paths; and which of them may be read. */
import { readFileSync } from 'node:fs';
import { createDeviceCheck } from '../../../../agent/attribution/otel/local_devices.ts';
import { parseMaps, readMaps } from '../../../../agent/attribution/otel/process_maps.ts';
import { openProcessMemory } from '../../../../agent/attribution/otel/process_memory.ts';

test('every line except that of the kernel itself is a mapping', () => {
  const maps = readMaps(process.pid).value!;
  const lines = maps.trimEnd().split('\n');
  expect(parseMaps(maps)).toHaveLength(lines.filter((line) => !line.endsWith('[vsyscall]')).length);
});

test.each<[string, object]>([
  [
    '7f188b7de000-7f188b7df000 rw-s 00002000 00:01 8716                       /memfd:OTEL_CTX (deleted)',
    { start: 0x7f188b7de000, end: 0x7f188b7df000, executable: false, offset: 0x2000, device: '00:01', inode: '8716' },
  ],
  ['00400000-00401000 r-xp 00000000 fd:100 18446744073709551615 /a b', { device: 'fd:100', path: '/a b' }],
  ['00400000-00401000 r--p 00000000 00:00 0 ', { path: '', inode: '0' }],
  ['00400000-00401000 r--p 00000000 00:00 0                          [heap]', { path: '[heap]' }],
])('%s', (line, fields) => expect(parseMaps(`${line}\n`)).toEqual([expect.objectContaining(fields)]));

test('a path cannot be mistaken for another line', () => {
  const forged = '00600000-00601000 rw-p 00000000 00:00 0 [anon:OTEL_CTX]';
  for (const separator of ['\r', '\u2028', '\x85', '\v', '\f']) {
    const path = Buffer.from(`/x${separator}${forged}`).toString('latin1');
    const mappings = parseMaps(`00400000-00401000 r--p 00000000 fe:00 7 ${path}\n`);
    expect(mappings.map(({ start }) => start)).toEqual([0x400000]);
  }
});

test.each(['', '\n', 'x', '0-1', 'ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]'])(
  '%p is not a mapping',
  (line) => expect(parseMaps(line)).toEqual([]),
);

const MOUNTS = [
  '22 27 0:21 / /proc rw,relatime - proc proc rw',
  '27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw',
  '30 27 0:40 / /mnt/a\\040b rw master:2 propagate_from:1 - overlay overlay rw,lowerdir=/x',
  '31 27 0:41 / /home/x/sshfs rw,nosuid - fuse.sshfs sshfs rw',
  '32 27 0:42 / /net rw - nfs4 server:/ rw',
  '33 27 259:300 / /big rw - xfs /dev/nvme rw',
  '34 27 0:43 / /odd\r31 1 0:41 rw - tmpfs tmpfs rw',
].join('\n');

test.each([
  ['memory', '00:00', true],
  ['a memfd', '00:01', true],
  ['the root', 'fe:00', true],
  ['a container', '00:28', true],
  ['a large minor number', '103:12c', true],
  ['a mount point with odd bytes', '00:2b', true],
  ['FUSE', '00:29', false],
  ['NFS', '00:2a', false],
  ['what is mounted nowhere here', '00:99', false],
])('%s: %s is local: %p', (_, device, isLocal) => expect(createDeviceCheck(() => MOUNTS)(device)).toBe(isLocal));

test('mounts are read once, and only when a file is looked up', () => {
  let reads = 0;
  const isLocal = createDeviceCheck(() => {
    reads++;
    return MOUNTS;
  });
  expect([isLocal('00:00'), reads]).toEqual([true, 0]);
  expect([isLocal('fe:00'), isLocal('00:99'), reads]).toEqual([true, false, 1]);
});

test('the program that runs this test is local', () => {
  const program = parseMaps(readMaps(process.pid).value!).find(({ path }) => path === process.execPath)!;
  expect(createDeviceCheck()(program.device)).toBe(true);
});

describe('process memory', () => {
  const mappings = parseMaps(readFileSync('/proc/self/maps', 'latin1'));
  const code = mappings.find(({ path, offset }) => path === process.execPath && offset === 0)!;

  function reads(address: number, size: number, isLocal: (device: string) => boolean = () => true): boolean {
    const { value } = openProcessMemory(process.pid, mappings, isLocal);
    const into = new Uint8Array(size);
    try {
      const isRead = value!.read(address, into);
      if (isRead && address === code.start) expect(String.fromCharCode(...into.subarray(1, 4))).toBe('ELF');
      return isRead;
    } finally {
      value!.close();
    }
  }

  test('is read within mappings, and across adjacent ones', () => {
    expect(reads(code.start, 4096)).toBe(true);
    const next = mappings.find(({ start }) => start === code.end);
    expect(reads(code.end - 8, 16)).toBe(next !== undefined);
  });

  test.each([
    ['no address', 0],
    ['where nothing is', 0x1000],
    ['above all', Number.MAX_SAFE_INTEGER - 8],
    ['no number', Number.NaN],
    ['endless', Number.POSITIVE_INFINITY],
    ['negative', -4096],
  ])('is not read: %s', (_, address) => expect(reads(address, 8)).toBe(false));

  test('is not read where reading could block', () => {
    expect(reads(code.start, 8, (device) => device !== code.device)).toBe(false);
  });
});
