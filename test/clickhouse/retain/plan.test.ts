/** Tests which hours go, by age and by the space of disks. */
import { computeFirstKeptHour, type DiskSpace } from '../../../agent/fleet/retain/plan.ts';

const HOUR_NS = 3_600_000_000_000n;
const NOW_HOUR = 1000n;
const NOW_NS = NOW_HOUR * HOUR_NS + 1_800_000_000_000n;

const disk = (freeBytes: bigint, hours: Record<number, bigint>): DiskSpace => ({
  ...{ freeBytes, totalBytes: 1000n },
  bytesByHour: new Map(Object.entries(hours).map(([hour, bytes]) => [BigInt(hour), bytes])),
});

const first = (ageHours: bigint | undefined, freePercent: number | undefined, ...disks: DiskSpace[]) =>
  computeFirstKeptHour({ ageNs: ageHours === undefined ? undefined : ageHours * HOUR_NS, freePercent }, disks, NOW_NS);

const FULL = { 980: 10n, 981: 20n, 990: 30n };

test.each([
  ['nothing is asked for', undefined, undefined, [disk(0n, FULL)], 0n],
  ['an hour goes when all of it is older', 10n, undefined, [], 990n],
  ['an age of more than there is time', 2000n, undefined, [], 0n],
  ['the hour that is filled, and the one before it, stay', 1n, undefined, [], 999n],
  ['a disk has enough', undefined, 15, [disk(150n, FULL)], 0n],
  ['a disk lacks one byte', undefined, 15, [disk(149n, FULL)], 981n],
  ['a disk lacks more than the oldest hour', undefined, 15, [disk(135n, FULL)], 982n],
  ['the fullest disk decides', undefined, 15, [disk(150n, FULL), disk(149n, FULL), disk(121n, FULL)], 982n],
  ['the age is nearer than the disk', 12n, 15, [disk(149n, FULL)], 988n],
  ['a disk that is full of something else', undefined, 99, [disk(0n, { 980: 1n, 1000: 1n })], 999n],
] as const)('%s', (_, age, free, disks, wanted) => {
  expect(first(age, free, ...disks)).toBe(wanted);
});
