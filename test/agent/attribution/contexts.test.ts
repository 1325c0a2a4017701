/**
 * Tests who owns an event: the setter's context as long as it is set, a forked copy also after that; an explicit
 * "nobody" counts.
 */
import { createContexts } from '../../../agent/attribution/contexts.ts';
import { CONTEXT_FLAGS, CONTEXT_LOST } from '../../../bpf/schema/common.ts';
import { CONTEXT_SCOPES } from '../../../bpf/schema/definitions.ts';
import { contextDefinition } from './attributed.ts';
import { createNames } from './names.ts';

const { CONTEXT_HTTP, CONTEXT_INHERITED_PROCESS, CONTEXT_INHERITED_THREAD, CONTEXT_PROCESS_DEFAULT } = CONTEXT_FLAGS;
const ROOT_UID = 0;
const GUEST_UID = 1001;
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';

function setUp() {
  const ids = createNames();
  const oldestIds = { context: 1, name: 1 };
  const contexts = createContexts({
    oldestIds,
    internName: ids.intern,
    intern: ({ transactionId, traceId, spanId }) => ids.intern(JSON.stringify([transactionId, traceId, spanId])),
    getThreadKeys: () => ['transaction.id'],
    trustsService: (uid) => uid === ROOT_UID,
  });
  const define = (context_id: number, body: string, uid = ROOT_UID) =>
    contexts.define(contextDefinition({ context_id, time_ns: 100, uid }), `KREPLAY1 ${body}\n`);
  const transactionAt = (contextId: number, flags: number, startNs: number) => {
    const owner = contexts.findOwner(contextId, flags, startNs);
    return owner ? (JSON.parse(ids.text(owner.contextId) ?? '[null]') as string[])[0] : 'nobody';
  };
  return { contexts, ids, oldestIds, define, transactionAt };
}

const lostOf = ({ takeLost }: Pick<ReturnType<typeof createContexts>, 'takeLost'>) =>
  [...takeLost().values()].reduce((sum, count) => sum + count, 0);

test('an event belongs to the transaction that its marker named', () => {
  const { define, contexts, ids, transactionAt } = setUp();
  define(256, `txn=order-1 trace=${TRACE}`);
  define(512, 'proc txn=order-2');
  expect(ids.text(contexts.findOwner(256, 0, 150)!.contextId)).toBe(JSON.stringify(['order-1', TRACE, null]));
  expect(transactionAt(512, CONTEXT_PROCESS_DEFAULT, 150)).toBe('order-2');
});

test.each([
  ['no context', 0],
  ['a context whose definition was lost', CONTEXT_LOST],
  ['a context that was never defined', 768],
])('%s has no owner', (_, contextId) => {
  const { define, transactionAt } = setUp();
  define(256, 'txn=order-1');
  expect(transactionAt(contextId, 0, 150)).toBe('nobody');
});

describe('after the context ended', () => {
  const ENDED_NS = 200;

  test.each([
    ['its own thread, whose event began before', 0, ENDED_NS - 1, 'order-1'],
    ['its own thread, as the kernel reads it then', 0, ENDED_NS, 'order-1'],
    ['a thread by reference, before', CONTEXT_INHERITED_THREAD, ENDED_NS - 1, 'order-1'],
    ['a thread by reference, in that nanosecond', CONTEXT_INHERITED_THREAD, ENDED_NS, 'nobody'],
    ['a thread by reference, after', CONTEXT_INHERITED_THREAD, ENDED_NS + 1, 'nobody'],
    ['a forked copy, after', CONTEXT_INHERITED_PROCESS, ENDED_NS + 1, 'order-1'],
    ['a thread whose request another thread answered, before', CONTEXT_HTTP, ENDED_NS - 1, 'order-1'],
    ['a thread whose request another thread answered, after', CONTEXT_HTTP, ENDED_NS, 'nobody'],
    ['a process made in a request, before the answer', CONTEXT_HTTP | CONTEXT_INHERITED_PROCESS, 199, 'order-1'],
    ['a process made in a request, after the answer', CONTEXT_HTTP | CONTEXT_INHERITED_PROCESS, 200, 'nobody'],
    ['a copy that a thread by reference forked', CONTEXT_INHERITED_PROCESS | CONTEXT_INHERITED_THREAD, 201, 'nobody'],
    ["the process's default", CONTEXT_PROCESS_DEFAULT, ENDED_NS + 1, 'order-1'],
  ])('%s', (_, flags, startNs, expected) => {
    const { define, contexts, transactionAt } = setUp();
    define(256, 'txn=order-1');
    expect(transactionAt(256, flags, startNs)).toBe('order-1');
    contexts.end(256, ENDED_NS);
    expect(transactionAt(256, flags, startNs)).toBe(expected);
  });

  test('another context is not touched', () => {
    const { define, contexts, transactionAt } = setUp();
    define(256, 'txn=order-1');
    define(512, 'txn=order-2');
    contexts.end(256, ENDED_NS);
    contexts.end(CONTEXT_LOST, ENDED_NS);
    expect(transactionAt(512, CONTEXT_INHERITED_THREAD, 300)).toBe('order-2');
  });
});

test('a service name is accepted only from a process that may set it', () => {
  const { define, contexts } = setUp();
  define(256, 'txn=a svc=checkout', ROOT_UID);
  define(512, 'txn=a svc=checkout', GUEST_UID);
  define(768, 'svc=checkout', ROOT_UID);
  expect(contexts.findOwner(256, 0, 1)!.service).toBe('checkout');
  expect(contexts.findOwner(512, 0, 1)!.service).toBeNull();
  expect(contexts.findOwner(768, 0, 1)).toMatchObject({ contextId: 0, service: 'checkout' });
});

test.each([
  ['no fields', '', ROOT_UID],
  ['only unknown fields', 'x-kind=express', ROOT_UID],
  ['only malformed fields', 'trace=1234', ROOT_UID],
  ['only a service, from an untrusted writer', 'svc=checkout', GUEST_UID],
])('a marker with %s sets no owner', (_, body, uid) => {
  const { define, contexts } = setUp();
  define(256, body, uid);
  expect(contexts.findOwner(256, 0, 150)).toBeUndefined();
});

test('a definition that is not a marker line has no owner', () => {
  const { contexts } = setUp();
  contexts.define(contextDefinition({ context_id: 256 }), '');
  expect(contexts.findOwner(256, 0, 150)).toBeUndefined();
});

test('an index that the recording has dropped is requested again', () => {
  const { define, contexts, ids, oldestIds, transactionAt } = setUp();
  define(256, 'txn=order-1');
  const first = contexts.findOwner(256, 0, 150)!.contextId;
  ids.forget();
  oldestIds.context = first + 1;
  expect(transactionAt(256, 0, 150)).toBe('order-1');
  expect(contexts.findOwner(256, 0, 150)!.contextId).toBeGreaterThan(first);
});

test('the index of a service that the recording has dropped is requested again', () => {
  const { define, contexts, ids, oldestIds } = setUp();
  define(256, 'svc=checkout');
  const first = contexts.findOwner(256, 0, 150)!.serviceId;
  ids.forget();
  oldestIds.name = first + 1;
  const renewed = contexts.findOwner(256, 0, 150)!.serviceId;
  expect([renewed > first, ids.text(renewed)]).toEqual([true, 'checkout']);
});

test('if ends of contexts were lost, no earlier context is trusted by reference', () => {
  const { define, contexts, transactionAt } = setUp();
  define(256, 'txn=order-1');
  define(512, 'txn=order-2');
  contexts.end(512, 150);
  contexts.endAll(200);
  expect(transactionAt(256, CONTEXT_INHERITED_THREAD, 199)).toBe('order-1');
  expect(transactionAt(256, CONTEXT_INHERITED_THREAD, 200)).toBe('nobody');
  expect(transactionAt(512, CONTEXT_INHERITED_THREAD, 160)).toBe('nobody');
  // A thread's own context, and a copy, do not depend on the end of any other.
  expect(transactionAt(256, 0, 300)).toBe('order-1');
  expect(transactionAt(256, CONTEXT_INHERITED_PROCESS, 300)).toBe('order-1');
});

test('of two ends of a context, the first counts', () => {
  const { define, contexts, transactionAt } = setUp();
  define(256, 'txn=order-1');
  contexts.end(256, 200);
  contexts.end(256, 300);
  expect(transactionAt(256, CONTEXT_HTTP, 250)).toBe('nobody');
});

test('a reference to a forgotten context is counted; a reference to an empty, lost or ended one is not', () => {
  const { define, contexts, transactionAt } = setUp();
  define(256, 'order-1');
  const references: [contextId: number, flags: number][] = [
    [0, 0],
    [CONTEXT_LOST, 0],
    [256, 0],
    [512, CONTEXT_INHERITED_THREAD],
    [512, 0],
  ];
  const counts = references.map(([contextId, flags]) => [transactionAt(contextId, flags, 150), lostOf(contexts)]);
  expect(counts).toEqual([0, 0, 0, 0, 1].map((count) => ['nobody', count]));
});

test('what is lost is of the service of its process, unless a trusted or unknown writer may have named another', () => {
  const { contexts } = setUp();
  const process = (share: number) => ({ id: 1, service: 'noisy', share });
  const lostWith = (contextId: number, flags: number, share: number) => {
    contexts.findOwner(contextId, flags, 150, process(share));
    return [...contexts.takeLost()];
  };
  const inherited = CONTEXT_INHERITED_PROCESS;
  expect(lostWith(256, 0, 1000)).toEqual([['noisy', 1]]);
  expect(lostWith(256, 0, 2 ** 50)).toEqual([[undefined, 1]]);
  expect(lostWith(256, inherited, 1000)).toEqual([[undefined, 1]]);
  expect(lostWith(CONTEXT_LOST, 0, 1000)).toEqual([]);
  expect(lostWith(CONTEXT_LOST, inherited, 1000)).toEqual([['noisy', 1]]);
  contexts.noteLostMarker();
  expect(lostWith(CONTEXT_LOST, inherited, 1000)).toEqual([[undefined, 1]]);
});

test('a context that the recording has no room for has no owner, and is counted', () => {
  const oldestIds = { context: 1, name: 1 };
  const contexts = createContexts({
    intern: () => 0,
    internName: () => 0,
    oldestIds,
    getThreadKeys: () => [],
    trustsService: () => false,
  });
  contexts.define(contextDefinition({ context_id: 256 }), 'KREPLAY1 txn=a\n');
  expect(contexts.findOwner(256, 0, 150)).toBeUndefined();
  expect([lostOf(contexts), lostOf(contexts)]).toEqual([1, 0]);
});

describe('the trace context that a program was started with', () => {
  const SPAN = '00f067aa0ba902b7';
  const OTHER_TRACE = '0af7651916cd43dd8448eb211c80319c';
  const OTHER_SPAN = 'b7ad6b7169203331';
  const environment = (context_id: number) =>
    contextDefinition({ context_id, scope: CONTEXT_SCOPES.SCOPE_ENVIRONMENT });

  function started(value: string) {
    const { contexts } = setUp();
    contexts.define(environment(256), value);
    return contexts;
  }

  test('is the owner', () => {
    const contexts = started(`00-${TRACE}-${SPAN}-01`);
    expect(contexts.findOwner(256, 0, 150)?.ids).toEqual({ transactionId: null, traceId: TRACE, spanId: SPAN });
  });

  test.each(['', 'x', `ff-${TRACE}-${SPAN}-01`, `00-${'0'.repeat(32)}-${SPAN}-01`, `00-${TRACE}-${'0'.repeat(16)}-01`])(
    'is ignored when TRACEPARENT is %p',
    (value) => expect(started(value).findOwner(256, 0, 150)).toBeUndefined(),
  );

  test.each([
    ['a transaction', 'txn=a', { transactionId: 'a', traceId: TRACE, spanId: SPAN }],
    ['a span', `span=${OTHER_SPAN}`, { transactionId: null, traceId: TRACE, spanId: OTHER_SPAN }],
    ['a trace', `txn=a trace=${OTHER_TRACE}`, { transactionId: 'a', traceId: OTHER_TRACE, spanId: null }],
  ])('is continued by a marker that names %s', (_, body, ids) => {
    const contexts = started(`00-${TRACE}-${SPAN}-01`);
    contexts.define(contextDefinition({ context_id: 512, outer_context_id: 256 }), `KREPLAY1 ${body}`);
    expect(contexts.findOwner(512, 0, 150)?.ids).toEqual(ids);
  });

  test.each([
    ['before its end', 199, TRACE],
    ['at its end', 200, null],
    ['later', 300, null],
  ])('is continued by a marker that was written %s: %#', (_, time_ns, traceId) => {
    const contexts = started(`00-${TRACE}-${SPAN}-01`);
    contexts.end(256, 200);
    contexts.define(contextDefinition({ context_id: 512, outer_context_id: 256, time_ns }), 'KREPLAY1 txn=a');
    expect(contexts.findOwner(512, 0, 400)?.ids).toEqual({
      transactionId: 'a',
      traceId,
      spanId: traceId && SPAN,
    });
  });
});
