/**
 * Tests ELF files against readelf, and ELF files with changed bytes: whatever they contain, the search for the variable
 * terminates, soon, and without an error.
 */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { type Elf, type ReadAt, readElf } from '../../../../agent/attribution/elf/elf.ts';
import { THREAD_CONTEXT_SYMBOL } from '../../../../agent/attribution/otel/thread_local.ts';
import { computeProgramBlockDistance, readSlotAccess } from '../../../../agent/attribution/otel/tls_access.ts';
import { times } from '../../../repeats.ts';
import { compile } from './programs.ts';

const READS_MAX = 20_000;

function readerOf(bytes: Uint8Array): ReadAt {
  let reads = 0;
  return (offset, size) => {
    expect(reads++).toBeLessThan(READS_MAX);
    expect(size).toBeLessThanOrEqual(1 << 16);
    if (!(offset >= 0 && size >= 0 && offset + size <= bytes.length)) return undefined;
    return new DataView(new Uint8Array(bytes.subarray(offset, offset + size)).buffer);
  };
}

function elfOf(bytes: Uint8Array): Elf | undefined {
  return readElf(readerOf(bytes));
}

function library(name: string, options: readonly string[]): Uint8Array {
  const sources = ['thread_context_variable', 'thread_context_access'];
  return readFileSync(compile(`libelf_${name}.so`, sources, ['-shared', '-fPIC', ...options]));
}

describe('the libraries of this machine', () => {
  const folder = '/lib/x86_64-linux-gnu';
  const files = readdirSync(folder).filter((name) =>
    /^(libc|libm|libstdc\+\+|libz|ld-linux-x86-64)\.so\.\d+$/.test(name),
  );

  test.each(files)('%s has the thread-local symbols that readelf finds', (name) => {
    const path = join(folder, name);
    const listing = execFileSync('readelf', ['--dyn-syms', '--wide', path], { encoding: 'utf8' });
    const symbols = [...listing.matchAll(/: ([0-9a-f]{16}) +(\d+) +TLS +\w+ +DEFAULT +(\d+) ([\w.]+)/g)];
    const elf = elfOf(readFileSync(path))!;
    for (const [, value, size, , symbol] of symbols) {
      const found = { value: Number.parseInt(value!, 16), size: Number(size) };
      expect({ symbol, ...elf.findExportedTlsSymbol(symbol!) }).toEqual({ symbol, ...found });
    }
    // The first is a function, and the second is not exported.
    expect(elf.findExportedTlsSymbol('malloc')).toBeUndefined();
    expect(elf.findExportedTlsSymbol(THREAD_CONTEXT_SYMBOL)).toBeUndefined();
  });

  test.each(files)('%s has the thread-local relocations that readelf finds', (name) => {
    const path = join(folder, name);
    const listing = execFileSync('readelf', ['--relocs', '--wide', path], { encoding: 'utf8' });
    const kinds = { DTPMOD64: 'module', TPOFF64: 'offset', TLSDESC: 'descriptor' };
    const lines = [...listing.matchAll(/^([0-9a-f]{16}) +\w+ R_X86_64_(DTPMOD64|TPOFF64|TLSDESC) /gm)];
    const expected = lines.map(([, address, type]) => ({
      kind: kinds[type as keyof typeof kinds],
      address: Number.parseInt(address!, 16),
    }));
    expect([...elfOf(readFileSync(path))!.readTlsRelocations()]).toMatchObject(expected);
  });
});

test('the sections have the names that readelf finds', () => {
  const bytes = library('sections', []);
  const path = join(import.meta.dirname, '../../../../build/test/otel/libelf_sections.so');
  const listing = execFileSync('readelf', ['--sections', '--wide', path], { encoding: 'utf8' });
  const names = [...listing.matchAll(/^ +\[ *[1-9]\d*\] (\S+)/gm)].map(([, name]) => name);
  expect(names).toContain('.dynsym');
  // The first section header has no name.
  expect(elfOf(bytes)!.readSectionNames()).toEqual(['', ...names]);
});

describe('the thread-local block of a program', () => {
  test.each([
    [{ address: 0x3df8, memorySize: 8, alignment: 8 }, 8],
    [{ address: 0x3dc0, memorySize: 20, alignment: 8 }, 24],
    [{ address: 0x3dc0, memorySize: 100, alignment: 64 }, 128],
    [{ address: 0x3dc0, memorySize: 1, alignment: 0 }, 1],
    // The block's address stays congruent modulo its alignment: lld's getTlsTpOffset() and glibc's
    // _dl_determine_tlsoffset().
    [{ address: 0x1008, memorySize: 16, alignment: 64 }, 56],
    [{ address: 0x1008, memorySize: 60, alignment: 64 }, 120],
    [{ address: 0, memorySize: 2 ** 40, alignment: 8 }, undefined],
    [{ address: 0, memorySize: Number.POSITIVE_INFINITY, alignment: 8 }, undefined],
    [{ address: Number.POSITIVE_INFINITY, memorySize: 8, alignment: 8 }, undefined],
    [{ address: 0, memorySize: 8, alignment: Number.POSITIVE_INFINITY }, undefined],
  ])('of size %p lies %p below the thread pointer', (segment, distance) => {
    expect(computeProgramBlockDistance(segment)).toBe(distance);
  });
});

test.each<[string, number, number]>([
  ['32 bits', 4, 1],
  ['another byte order', 5, 2],
  ['an object file', 16, 1],
  ['arm64', 18, 183],
  ['other program headers', 54, 32],
])('%s is not read', (_, at, byte) => {
  const bytes = Uint8Array.from(library('gnu2', ['-mtls-dialect=gnu2']));
  expect(elfOf(bytes)).toBeDefined();
  bytes[at] = byte;
  expect(elfOf(bytes)).toBeUndefined();
});

test.each([0, 1, 63])('the first %i bytes of a file are not accepted', (size) => {
  expect(elfOf(library('gnu2', ['-mtls-dialect=gnu2']).subarray(0, size))).toBeUndefined();
});

/** Calls everything that reads from a file. */
function lookThrough(bytes: Uint8Array, memory: (address: number) => number): void {
  const elf = elfOf(bytes);
  if (!elf) return;
  const symbol = elf.findExportedTlsSymbol(THREAD_CONTEXT_SYMBOL);
  const bias = elf.findLoadBias(0x7f0000001000, 0x1000) ?? 0;
  const read = (address: number, into: Uint8Array) => {
    into.forEach((_, i) => {
      into[i] = memory(address + i);
    });
    return memory(address) !== 0;
  };
  for (const own of [symbol?.value, undefined]) {
    const access = readSlotAccess(elf, THREAD_CONTEXT_SYMBOL, own, bias, read);
    if (typeof access === 'string') expect(['not_bound', 'not_told']).toContain(access);
    else if (access.mode === 'static') expect(access.offset).toBeLessThan(0);
    else expect(access.offset).toBeGreaterThanOrEqual(0);
  }
  if (elf.tls) computeProgramBlockDistance(elf.tls);
  elf.readSectionNames();
  expect(elf.readDataStart(16)?.length ?? 0).toBeLessThanOrEqual(16);
}

describe.each<[string, readonly string[]]>([
  ['gnu2', ['-mtls-dialect=gnu2']],
  ['gnu', ['-mtls-dialect=gnu']],
  ['sysv', ['-Wl,--hash-style=sysv', '-ftls-model=initial-exec']],
])('a library with changed bytes: %s', (name, options) => {
  /** Offsets of bytes with a meaning: the headers, the tables, and the entries of the dynamic section. */
  function placesIn(bytes: Uint8Array): number[] {
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    const places = Array.from({ length: 64 + 56 * view.getUint16(56, true) }, (_, i) => i);
    const listing = execFileSync(
      'readelf',
      ['-SW', join(import.meta.dirname, `../../../../build/test/otel/libelf_${name}.so`)],
      {
        encoding: 'utf8',
      },
    );
    const sections =
      /\.(gnu\.hash|hash|dynsym|dynstr|rela\.dyn|rela\.plt|dynamic) +\w+ +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+)/g;
    for (const [, , offset, size] of listing.matchAll(sections)) {
      const from = Number.parseInt(offset!, 16);
      for (let i = 0; i < Number.parseInt(size!, 16); i++) places.push(from + i);
    }
    return places;
  }

  test('is parsed without a failure', () => {
    const original = Uint8Array.from(library(name, options));
    const place = fc.constantFrom(...placesIn(original));
    const byte = fc.oneof(fc.constantFrom(0, 1, 0x7f, 0x80, 0xff), fc.nat(255));
    const changes = fc.array(fc.tuple(place, byte, fc.constantFrom(1, 1, 4, 8)), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(changes, fc.nat(0xffff), (list, seed) => {
        const bytes = Uint8Array.from(original);
        for (const [at, value, size] of list) bytes.fill(value, at, at + size);
        lookThrough(bytes, (address) => ((address * 31 + seed) >>> 3) & (seed & 1 ? 0xff : 1));
      }),
      { numRuns: times(300) },
    );
  });

  test('is parsed without a failure when it is truncated anywhere', () => {
    const original = library(name, options);
    fc.assert(fc.property(fc.nat(original.length), (size) => lookThrough(original.subarray(0, size), () => 1)));
  });
});

test('endless chains and tables are abandoned early', () => {
  const bytes = Uint8Array.from(library('endless', ['-Wl,--hash-style=sysv']));
  const path = join(import.meta.dirname, '../../../../build/test/otel/libelf_endless.so');
  const listing = execFileSync('readelf', ['-SW', path], { encoding: 'utf8' });
  const [, offset, size] = /\.hash +\w+ +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+)/.exec(listing)!;
  const view = new DataView(bytes.buffer);
  // Every bucket and every link points to symbol 1, which is not the one that is searched.
  for (let at = 8; at < Number.parseInt(size!, 16); at += 4) view.setUint32(Number.parseInt(offset!, 16) + at, 1, true);
  expect(elfOf(bytes)!.findExportedTlsSymbol('x')).toBeUndefined();
});
