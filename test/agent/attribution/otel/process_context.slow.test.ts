/**
 * Tests process contexts of real publishers, read while they change, and messages that protoc encodes; then malformed,
 * torn, oversized and forged ones, each of which must give a reason and nothing else.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import fc from 'fast-check';
import { VALUES_MAX } from '../../../../agent/attribution/otel/attributes.ts';
import {
  decodeProcessContext,
  PAYLOAD_BYTES_MAX,
  readAt,
  readProcessContext,
} from '../../../../agent/attribution/otel/process_context.ts';
import { times } from '../../../repeats.ts';
import { AS_NOBODY } from '../../../unprivileged.ts';
import { compile, start, stopAll } from './programs.ts';

const PUBLISHER = 'process_context_publisher';

afterEach(stopAll);

let publisher: string;

beforeAll(() => {
  publisher = compile(PUBLISHER, [PUBLISHER]);
});

describe('a process context', () => {
  test.each(['memfd', 'both'])('is read: %s', async (how) => {
    const { pid } = await start(publisher, [how, 'once']);
    expect(readProcessContext(pid)).toEqual({
      value: {
        publishedAtNs: expect.any(BigInt),
        resource: new Map([['service.name', '0']]),
        attributes: new Map([['threadlocal.schema_version', 'tlsdesc_v1_dev']]),
        threadKeys: [],
      },
    });
  });

  test('is read by the name of the memory area if there is no memfd', async () => {
    try {
      const { pid } = await start(publisher, ['named', 'once']);
      expect(readProcessContext(pid).value?.resource.get('service.name')).toBe('0');
    } catch (error) {
      // Without CONFIG_ANON_VMA_NAME the mapping cannot be found, and the publisher fails.
      expect((error as Error).message).toContain('ended before it was ready');
      expect(statusOf(publisher, ['named', 'once'])).toBe(3);
    }
  });

  test('that changes constantly is read as one of its states, or not at all', async () => {
    const { pid, child } = await start(publisher, ['memfd', 'update']);
    const ended = once(child, 'exit');
    const seen = new Set<string>();
    const reasons = new Map<string, number>();
    let times = 0n;
    while (child.exitCode === null) {
      const { value, reason } = readProcessContext(pid);
      if (value) {
        const name = value.resource.get('service.name') as string;
        expect(new Set(value.resource.values())).toEqual(new Set([name]));
        expect(value.resource.size).toBe((Number(name) % 61) + 1);
        expect(value.publishedAtNs).toBeGreaterThanOrEqual(times);
        times = value.publishedAtNs;
        seen.add(name);
      } else reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
      await new Promise(setImmediate);
    }
    await ended;
    expect(seen.size).toBeGreaterThan(20);
    // When the publisher ends, its process disappears step by step.
    expect([...reasons.keys()].filter((reason) => !/updating|gone|not_published|unreadable/.test(reason))).toEqual([]);
  });

  test('is not inherited by a forked child', async () => {
    const { pid, lines } = await start(publisher, ['memfd', 'fork']);
    const child = Number(lines[0]);
    try {
      expect(readProcessContext(pid).value).toBeDefined();
      expect(readProcessContext(child)).toEqual({ value: undefined, reason: 'not_published' });
    } finally {
      process.kill(child, 'SIGKILL');
    }
  });

  test.each([
    ['signature', 'not_published'],
    ['version', 'unsupported_version'],
    ['time', 'updating'],
    ['size', 'unreadable'],
    ['no size', 'unreadable'],
    ['pointer', 'unreadable'],
    ['high pointer', 'unreadable'],
    ['payload', 'malformed'],
    ['protection', 'not_published'],
  ])('with a wrong %s is reported as %s', async (what, reason) => {
    const { pid } = await start(publisher, ['memfd', 'break', what]);
    expect(readProcessContext(pid)).toEqual({ value: undefined, reason });
  });
});

function statusOf(program: string, args: readonly string[]): number | null {
  try {
    execFileSync(program, args);
    return 0;
  } catch (error) {
    return (error as { status: number | null }).status;
  }
}

test('is absent in a process without one, a kernel thread and an exited process', async () => {
  expect(readProcessContext(process.pid)).toEqual({ value: undefined, reason: 'not_published' });
  expect(readProcessContext(2)).toEqual({ value: undefined, reason: 'not_published' });
  const { pid } = await start(publisher, ['memfd', 'once']);
  await stopAll();
  expect(readProcessContext(pid)).toEqual({ value: undefined, reason: 'gone' });
});

test('is not read from a process of another user without the required privilege', async () => {
  const { pid } = await start(publisher, ['memfd', 'once']);
  const folder = join(import.meta.dirname, '../../../../agent/attribution/otel');
  const script = `
    import { readProcessContext } from '${folder}/process_context.ts';
    import { createThreadLocalResolver } from '${folder}/thread_local.ts';
    console.log(readProcessContext(${pid}).reason, createThreadLocalResolver().resolve(${pid}).reason);`;
  const [command, ...args] = AS_NOBODY;
  const output = execFileSync(command, [...args, process.execPath, '--input-type=module', '-e', script]);
  expect(output.toString()).toBe('not_permitted not_permitted\n');
});

/** Encodes a message with protoc, from its text format. */
function encoded(text: string): Uint8Array {
  const proto = join(import.meta.dirname, 'process_context.proto');
  return execFileSync('protoc', ['--encode=ProcessContext', `-I${join(proto, '..')}`, proto], { input: text });
}

const SCHEMA = 'attributes { key: "threadlocal.schema_version" value { string_value: "tlsdesc_v1_dev" } }';

function keyMap(...values: string[]): string {
  const listed = values.map((value) => `values { ${value} }`).join(' ');
  return `attributes { key: "threadlocal.attribute_key_map" value { array_value { ${listed} } } }`;
}

describe('an encoded message', () => {
  test('is decoded with every kind of value', () => {
    const message = encoded(`
      resource {
        attributes { key: "service.name" value { string_value: "shop-\\303\\244" } }
        attributes { key: "bool" value { bool_value: true } }
        attributes { key: "int" value { int_value: -7 } }
        attributes { key: "least" value { int_value: -9223372036854775808 } }
        attributes { key: "double" value { double_value: -2.5 } }
        attributes { key: "array" value { array_value { values { string_value: "a" } values { array_value {} } } } }
        attributes { key: "list" value { kvlist_value { values { key: "a" value { string_value: "b" } } } } }
        attributes { key: "bytes" value { bytes_value: "\\377" } }
        attributes { key: "empty" value {} }
        attributes { key: "none" }
        attributes { value { string_value: "nameless" } }
        attributes { key: "twice" value { string_value: "first" } }
        attributes { key: "twice" value { string_value: "last" } }
        dropped_attributes_count: 300
      }
      attributes { key: "other" value { string_value: "\\357\\273\\277mark" } }`);
    expect(decodeProcessContext(message)).toEqual({
      resource: new Map<string, unknown>([
        ['service.name', 'shop-ä'],
        ['bool', true],
        ['int', -7n],
        ['least', -(2n ** 63n)],
        ['double', -2.5],
        ['array', ['a', []]],
        ['list', null],
        ['bytes', null],
        ['empty', null],
        ['none', null],
        ['twice', 'last'],
      ]),
      attributes: new Map([['other', '\ufeffmark']]),
      threadKeys: undefined,
    });
  });

  test('without content is an empty context', () => {
    expect(decodeProcessContext(new Uint8Array())).toEqual({
      resource: new Map(),
      attributes: new Map(),
      threadKeys: undefined,
    });
  });

  test.each<[string, string, readonly string[] | undefined]>([
    ['no keys yet', SCHEMA, []],
    ['keys', SCHEMA + keyMap('string_value: "transaction.id"', 'string_value: "b"'), ['transaction.id', 'b']],
    ['the name that the schema is to get', `${SCHEMA.replace('tlsdesc_v1_dev', 'tls_v1')}`, []],
    ['keys of an unknown schema', SCHEMA.replace('tlsdesc', 'go_pprof') + keyMap('string_value: "a"'), undefined],
    ['keys of no schema', keyMap('string_value: "a"'), undefined],
    ['a key without a name', SCHEMA + keyMap('string_value: "a"', 'string_value: ""'), undefined],
    ['a key that is a number', SCHEMA + keyMap('int_value: 1'), undefined],
    ['keys that are no list', `${SCHEMA}${keyMap().replace('array_value { }', '')}`, undefined],
    ['keys of the resource', `resource { ${SCHEMA} ${keyMap('string_value: "a"')} }`, undefined],
  ])('defines the thread attributes: %s', (_, text, keys) => {
    const attribute = text.replace('array_value {  }', 'string_value: "a"');
    expect(decodeProcessContext(encoded(attribute))?.threadKeys).toEqual(keys);
  });

  test('is truncated beyond the limits, and never within a value', () => {
    const many = Array.from({ length: VALUES_MAX + 10 }, (_, i) => i);
    const resource = many.map((i) => `attributes { key: "k${i}" value { string_value: "v" } }`).join('\n');
    const keys = keyMap(...many.map((i) => `string_value: "k${i}"`));
    const long = `attributes { key: "long" value { string_value: "${'x'.repeat(5000)}" } }`;
    const longKey = `attributes { key: "${'x'.repeat(300)}" value { string_value: "v" } }`;
    const context = decodeProcessContext(encoded(`resource { ${resource} } ${SCHEMA} ${long} ${longKey} ${keys}`))!;
    expect(context.resource.size).toBe(VALUES_MAX);
    expect(context.threadKeys).toEqual(many.slice(0, VALUES_MAX).map((i) => `k${i}`));
    expect([...context.attributes.keys()]).toEqual([
      ...['threadlocal.schema_version', 'long', 'threadlocal.attribute_key_map'],
    ]);
    expect(context.attributes.get('long')).toBeNull();
  });

  test('is refused if its arrays are nested too deeply', () => {
    const deep = (depth: number): string => (depth === 0 ? '' : `array_value { values { ${deep(depth - 1)} } }`);
    const attribute = (depth: number) => encoded(`attributes { key: "a" value { ${deep(depth)} } }`);
    expect(decodeProcessContext(attribute(4))).toBeDefined();
    expect(decodeProcessContext(attribute(5))).toBeUndefined();
  });

  test('is decoded without the unknown fields of later versions', () => {
    const known = [...encoded('attributes { key: "a" value { string_value: "b" } }')];
    const later = [0x18, 0x96, 0x01, 0x21, 1, 2, 3, 4, 5, 6, 7, 8, 0x2d, 1, 2, 3, 4, 0x32, 2, 0xff, 0xff];
    const context = decodeProcessContext(Uint8Array.from([...later, ...known, ...later]));
    expect(context?.attributes).toEqual(new Map([['a', 'b']]));
  });

  test.each<[string, readonly number[]]>([
    ['a tag that is cut', [0x80]],
    ['a tag of more than 32 bits', [0x8a, 0x80, 0x80, 0x80, 0x10, 0]],
    ['field 0', [0x02, 0]],
    ['a varint of 11 bytes', [0x18, ...Array(10).fill(0xff), 1]],
    ['a varint of more than 64 bits', [0x18, ...Array(9).fill(0xff), 2]],
    ['a length beyond the end', [0x0a, 5, 1]],
    ['a length of 2^63', [0x0a, ...Array(8).fill(0xff), 0x7f]],
    ['a fixed field that is cut', [0x19, 1, 2]],
    ['a group', [0x1b, 0x1c]],
    ['a resource that is a number', [0x08, 1]],
    ['an attribute that is a number', [0x10, 1]],
    ['a key that is a number', [0x12, 2, 0x08, 1]],
    ['two keys in one', [0x12, 6, 0x0a, 1, 0x61, 0x0a, 1, 0x62]],
    ['two values in one', [0x12, 4, 0x12, 0, 0x12, 0]],
    ['a key that is no UTF-8', [0x12, 3, 0x0a, 1, 0xff]],
    ['a value that is no UTF-8', [0x12, 5, 0x12, 3, 0x0a, 1, 0xff]],
    ['a text that is a number', [0x12, 4, 0x12, 2, 0x08, 1]],
    ['a bool that is a text', [0x12, 5, 0x12, 3, 0x12, 1, 0x61]],
    ['a double of 4 bytes', [0x12, 7, 0x12, 5, 0x25, 0, 0, 0, 0]],
    ['a double that is a text of 8 bytes', [0x12, 12, 0x12, 10, 0x22, 8, 0, 0, 0, 0, 0, 0, 0, 0]],
    ['an array whose value is a number', [0x12, 6, 0x12, 4, 0x2a, 2, 0x08, 1]],
  ])('is refused for %s', (_, bytes) => {
    expect(decodeProcessContext(Uint8Array.from(bytes))).toBeUndefined();
  });
});

describe('properties', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 40 });
  const attributes = fc.dictionary(
    text,
    fc.oneof(text, fc.boolean(), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })),
  );

  function message(field: number, ...parts: Uint8Array[]): Uint8Array {
    const content = Buffer.concat(parts);
    return Buffer.concat([varint(BigInt(field * 8 + 2)), varint(BigInt(content.length)), content]);
  }

  function varint(value: bigint): Uint8Array {
    const bytes: number[] = [];
    let left = BigInt.asUintN(64, value);
    for (; left > 0x7fn; left >>= 7n) bytes.push(Number(left & 0x7fn) | 0x80);
    return Uint8Array.from([...bytes, Number(left)]);
  }

  function value(of: string | boolean | bigint): Uint8Array {
    if (typeof of === 'string') return message(1, Buffer.from(of));
    return Buffer.concat([Uint8Array.of(typeof of === 'bigint' ? 0x18 : 0x10), varint(BigInt(of))]);
  }

  function pairs(field: number, of: Record<string, string | boolean | bigint>): Uint8Array {
    const all = Object.entries(of).map(([key, content]) =>
      message(field, message(1, Buffer.from(key)), message(2, value(content))),
    );
    return Buffer.concat(all);
  }

  test('decoding reverses encoding', () => {
    fc.assert(
      fc.property(attributes, attributes, (resource, others) => {
        const named = (of: object) => new Map(Object.entries(of).filter(([key]) => key !== ''));
        const context = decodeProcessContext(Buffer.concat([message(1, pairs(1, resource)), pairs(2, others)]));
        expect(context?.resource).toEqual(named(resource));
        expect(context?.attributes).toEqual(named(others));
      }),
    );
  });

  test('any bytes are decoded or refused', () => {
    const sample = encoded(`resource { attributes { key: "service.name" value { string_value: "shop" } } }
      ${SCHEMA} ${keyMap('string_value: "transaction.id"', 'int_value: 5', 'double_value: 1')}`);
    const flipped = fc.array(fc.tuple(fc.nat(sample.length - 1), fc.nat(255)), { maxLength: 6 }).map((changes) => {
      const bytes = Uint8Array.from(sample);
      for (const [at, byte] of changes) bytes[at] = byte;
      return bytes;
    });
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), flipped), (bytes) => {
        const context = decodeProcessContext(bytes);
        expect(context === undefined || context.resource instanceof Map).toBe(true);
      }),
      { numRuns: times(500) },
    );
  });

  test.each<[string, readonly number[]]>([
    ['unknown fields', [0x18, 0]],
    ['empty attributes', [0x12, 0]],
    ['empty resources', [0x0a, 0]],
    ['attributes with keys of one byte', [0x12, 3, 0x0a, 1, 0x61]],
  ])('the largest payload of %s is decoded quickly', (_, unit) => {
    const payload = Uint8Array.from({ length: PAYLOAD_BYTES_MAX }, (_, i) => unit[i % unit.length]!);
    const before = process.cpuUsage();
    decodeProcessContext(payload.subarray(0, PAYLOAD_BYTES_MAX - (PAYLOAD_BYTES_MAX % unit.length)));
    expect(process.cpuUsage(before).user).toBeLessThan(500_000);
  });
});

/** Simulates a process's memory whose header and payload change between the reads, by a schedule. */
describe('the order of the reads', () => {
  const HEADER_AT = 0x1000;
  const contexts = [1, 2, 3].map((n) => encoded(`attributes { key: "n" value { string_value: "${'x'.repeat(n)}" } }`));

  /** Before the i-th read, the publisher does the next `steps[i]` steps of its updates. */
  function memoryOf(steps: readonly number[]) {
    const memory = Buffer.alloc(0x3000);
    let published = 0;
    let step = 0;
    const header = memory.subarray(HEADER_AT);
    header.write('OTEL_CTX');
    header.writeUInt32LE(2, 8);

    function publish(n: number, at: number): void {
      const payload = contexts[n % 3]!;
      memory.fill(0xff, 0x2000 + 0x400 * (n % 2), 0x2400 + 0x400 * (n % 2));
      memory.set(payload, 0x2000 + 0x400 * (n % 2));
      if (at === 0) header.writeBigUInt64LE(0n, 16);
      else if (at === 1) header.writeUInt32LE(payload.length, 12);
      else if (at === 2) header.writeBigUInt64LE(BigInt(0x2000 + 0x400 * (n % 2)), 24);
      else header.writeBigUInt64LE(BigInt(1000 + n), 16);
    }
    for (let at = 0; at < 4; at++) publish(0, at);

    return {
      read(address: number, into: Uint8Array) {
        for (let i = steps[step++ % steps.length]!; i > 0; i--, published++) {
          publish(1 + Math.floor(published / 4), published % 4);
        }
        if (address + into.length > memory.length) return false;
        into.set(memory.subarray(address, address + into.length));
        return true;
      },
      close() {},
    };
  }

  test('gives one complete context, or none', () => {
    let whole = 0;
    const schedule = fc.array(fc.oneof(fc.constant(0), fc.nat(9)), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(schedule, (steps) => {
        const { value, reason } = readAt(memoryOf(steps), HEADER_AT);
        if (!value) expect(reason).toBe('updating');
        else {
          const n = Number(value.publishedAtNs) - 1000;
          expect(value.attributes).toEqual(new Map([['n', 'x'.repeat((n % 3) + 1)]]));
          whole++;
        }
      }),
      { numRuns: times(800) },
    );
    expect(whole).toBeGreaterThan(times(800) / 30);
  });

  test('terminates even if the publisher never stops', () => {
    expect(readAt(memoryOf([3]), HEADER_AT)).toEqual({ value: undefined, reason: 'updating' });
  });
});
