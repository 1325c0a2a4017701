/** Tests what an answer reports as missing when nodes ship their events: nodes that are late, silent, ended or new. */
import { buildCoverage } from '../../../daemon/coverage/coverage.ts';
import type { NodeSpan } from '../../../daemon/store/store.ts';

const S = 1_000_000_000n;
const NOW = 10_000n * S;

/** A node that was heard of `ago` seconds before now, and whose events have arrived up to `until` seconds before now. */
function spanOf(node: string, { from = 0n, until = 20n, ago = 10n, end = 'open' as NodeSpan['end'], isGone = false }) {
  const toNs = NOW - until * S;
  return { node, fromNs: from * S, toNs, end, isWholeFile: false, heardOf: { atNs: NOW - ago * S, isGone } };
}

function gaps(spans: NodeSpan[], window: { fromNs?: bigint; toNs?: bigint; nodes?: string[] }) {
  const { gaps, complete } = buildCoverage([], spans, { ...window, nowNs: NOW });
  expect(complete).toBe(gaps.length === 0);
  return gaps.map(({ node, cause, from, to }) => `${node} ${cause} ${from / S}-${to / S}`);
}

test.each([
  ['a node that ships is complete until its events have arrived', {}, {}, []],
  ['a window that ends later lacks what has not arrived', {}, { toNs: NOW }, ['a not_arrived 9980-10000']],
  ['a window that ended before is complete', {}, { fromNs: 100n * S, toNs: 9000n * S }, []],
  ['a silent node is missed', { until: 300n, ago: 200n }, {}, ['a not_arrived 9700-10000']],
  ['a node that has gone is missed up to then', { until: 4000n, ago: 3900n, isGone: true }, {}, []],
  ['a node that has ended is gone at once', { until: 300n, ago: 200n, end: 'closed', isGone: true }, { toNs: NOW }, []],
  [
    'a node that has gone is missed when it is named',
    { until: 4000n, ago: 3900n, isGone: true },
    { nodes: ['a'] },
    ['a not_arrived 6000-10000'],
  ],
  ['a node is not missed before it was there', { from: 500n }, { fromNs: 100n * S }, []],
  [
    'a node that is named is missed before it was there',
    { from: 500n },
    { fromNs: 100n * S, nodes: ['a'] },
    ['a not_recorded_yet 100-500'],
  ],
] as const)('%s', (_, span, window, expected) => {
  expect(gaps([spanOf('a', span)], window as Parameters<typeof gaps>[1])).toEqual(expected);
});

test('a node that was never heard of is missed when it is named', () => {
  expect(gaps([spanOf('a', {})], { nodes: ['b'], toNs: 100n * S })).toEqual(['b not_recorded_yet 0-100']);
});

test('a recording within the time of another says nothing of what comes later', () => {
  const whole = spanOf('a', { until: 5000n, ago: 4900n, end: 'closed', isGone: true });
  const within = spanOf('a', { from: 100n, until: 9000n, ago: 8900n, end: 'killed', isGone: true });
  for (const spans of [
    [whole, within],
    [within, whole],
  ])
    expect(gaps(spans, { fromNs: 0n, toNs: 6000n * S, nodes: ['a'] })).toEqual(['a agent_stopped 5000-6000']);
});

test('the time between two recordings of a node is missed', () => {
  const before = spanOf('a', { until: 5000n, ago: 4900n, end: 'closed', isGone: true });
  expect(gaps([before, spanOf('a', { from: 6000n })], { fromNs: 0n })).toEqual(['a agent_stopped 5000-6000']);
});
