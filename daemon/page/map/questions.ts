/** What the overview asks of the daemon: the map, the slowest of the selection, and what sets the selection apart. */
import type { DifferencesAnswer, HeatmapAnswer, MapKind, Transaction, TransactionList } from '../feed/answers.ts';
import type { Daemon } from '../feed/daemon.ts';
import { populationParameters } from '../link/filters.ts';
import type { Link } from '../link/link.ts';
import { decimal } from '../numbers/exact_times.ts';
import { type Box, boxOf, OPEN_BOX } from './box.ts';
import { cellsOf, type MapCell, type MapScale, scaleOf } from './scale.ts';
import { exactTail, LIST_MAX, tailOfCells, tailSize } from './tail.ts';

/** An answer with the question that it answers: the old one stays while another is awaited. */
export interface Answered {
  key: string;
}

export interface LatencyMap extends Answered {
  answer: HeatmapAnswer;
  of: MapKind;
  /** Whether the map is of events because no transaction is labelled. */
  isUnlabelled: boolean;
  /** Parameters of the population, without its window. */
  filters: string;
  isFailedOnly: boolean;
  scale: MapScale;
  cells: MapCell[];
}

export interface Selection {
  kind: 'slowest' | 'failed' | 'box';
  box: Box;
  isFailed: boolean;
}

export interface Slowest extends Answered {
  transactions: Transaction[];
  /** Whether too many longer ones are before those of the box. */
  isCut: boolean;
}

export interface Apart extends Answered {
  map: LatencyMap;
  selection: Selection;
  answer: DifferencesAnswer;
}

/** Transactions that are listed. */
export const LISTED_MAX = 50;
/** Pages of longer transactions that are passed over for a box with an upper side. */
const PAGES_MAX = 3;

export function mapPath(link: Link, columns: number, of = link.of ?? 'transactions'): string {
  const parameters = populationParameters(link);
  if (link.has_error) parameters.set(of === 'transactions' ? 'has_error' : 'failed', 'true');
  parameters.set('of', of);
  parameters.set('columns', String(columns));
  return `/api/heatmap?${parameters}`;
}

/** Asks for the map of transactions; for that of events if the link says so, or if no transaction is recorded. */
export async function askMap(
  daemon: Pick<Daemon, 'askJson'>,
  link: Link,
  columns: number,
  signal?: AbortSignal,
): Promise<LatencyMap> {
  const asked = signal ? { signal } : {};
  const key = mapPath(link, columns);
  let answer = await daemon.askJson<HeatmapAnswer>(key, asked);
  let isUnlabelled = false;
  if (link.of === null && answer.total.count === 0) {
    const { transactions } = await daemon.askJson<TransactionList>('/api/transactions?limit=1', asked);
    isUnlabelled = transactions.length === 0;
    if (isUnlabelled) answer = await daemon.askJson<HeatmapAnswer>(mapPath(link, columns, 'events'), asked);
  }
  const filters = populationParameters({ ...link, from: null, to: null }).toString();
  const scale = scaleOf(answer);
  const about = { key, of: answer.of, isUnlabelled, filters, isFailedOnly: link.has_error };
  return { ...about, answer, scale, cells: cellsOf(answer, scale) };
}

/** What the link selects; null for the slowest while their least duration is not known, or if there are too few. */
export function selectionOf(link: Link, map: LatencyMap, slowest: Slowest | 'failed' | null): Selection | null {
  const box = boxOf(link);
  if (box) return { kind: 'box', box, isFailed: link.box_failed };
  if (link.box_failed) return { kind: 'failed', box: OPEN_BOX, isFailed: true };
  const size = tailSize(map.answer.total.count);
  if (size === 0) return null;
  const isExact = isTailListed(map);
  if (isExact && slowest === null) return null;
  const box_min =
    isExact && slowest !== null && slowest !== 'failed' && slowest.transactions.length > 0
      ? exactTail(slowest.transactions, size)
      : tailOfCells(map.answer, size);
  return { kind: 'slowest', box: { ...OPEN_BOX, box_min }, isFailed: false };
}

/** Whether the slowest 2 % fit into one list, which has their exact least duration. */
function isTailListed({ of, answer }: LatencyMap): boolean {
  const size = tailSize(answer.total.count);
  return of === 'transactions' && size > 0 && size < LIST_MAX;
}

/** The list of the slowest: those of the selection, or, until one is made, as many as its least duration takes. */
export function slowestPath(link: Link, map: LatencyMap): string | null {
  if (map.of !== 'transactions' || map.answer.total.count === 0) return null;
  const parameters = new URLSearchParams(map.filters);
  const box = boxOf(link) ?? OPEN_BOX;
  const isChosen = boxOf(link) !== null || link.box_failed;
  const from = larger(BigInt(map.answer.from), box.box_from);
  const to = smaller(BigInt(map.answer.to), box.box_to);
  parameters.set('from', from.toString());
  parameters.set('to', (to < from ? from : to).toString());
  if (box.box_min !== null) parameters.set('min_duration_ms', millisecondsText(box.box_min));
  if (map.isFailedOnly || link.box_failed) parameters.set('has_error', 'true');
  parameters.set('sort', 'slowest');
  const size = isChosen || !isTailListed(map) ? LISTED_MAX : Math.max(tailSize(map.answer.total.count) + 1, LISTED_MAX);
  parameters.set('limit', String(box.box_max === null ? size : LIST_MAX));
  return `/api/transactions?${parameters}`;
}

/** Reads the list; with `most` only those that are no longer than that. */
export async function askSlowest(
  daemon: Pick<Daemon, 'askJson'>,
  path: string,
  most: bigint | null,
  signal?: AbortSignal,
): Promise<Slowest> {
  const asked = signal ? { signal } : {};
  const found: Transaction[] = [];
  for (let page = 0, next = ''; ; page++) {
    const list = await daemon.askJson<TransactionList>(path + next, asked);
    found.push(...list.transactions.filter(({ duration_ns }) => most === null || BigInt(duration_ns) <= most));
    const isEnd = most === null || list.next_cursor === null || found.length >= LISTED_MAX;
    const about = { key: slowestKey(path, most), transactions: found };
    if (isEnd || page + 1 === PAGES_MAX) return { ...about, isCut: !isEnd };
    next = `&cursor=${encodeURIComponent(list.next_cursor!)}`;
  }
}

export const slowestKey = (path: string, most: bigint | null) => `${path} ${most ?? ''}`;

export function differencesPath(map: LatencyMap, { box, isFailed }: Selection): string {
  const parameters = new URLSearchParams(map.filters);
  parameters.set('of', map.of);
  parameters.set('window_from', String(map.answer.from));
  parameters.set('window_to', String(map.answer.to));
  if (map.isFailedOnly) parameters.set('window_failed', 'true');
  if (box.box_from !== null) parameters.set('from', box.box_from.toString());
  if (box.box_to !== null) parameters.set('to', box.box_to.toString());
  if (box.box_min !== null) parameters.set('min_duration_ms', millisecondsText(box.box_min));
  if (box.box_max !== null) parameters.set('max_duration_ms', millisecondsText(box.box_max));
  if (isFailed) parameters.set('failed', 'true');
  return `/api/differences?${parameters}`;
}

export async function askApart(
  daemon: Pick<Daemon, 'askJson'>,
  map: LatencyMap,
  selection: Selection,
  signal?: AbortSignal,
): Promise<Apart> {
  const key = differencesPath(map, selection);
  const answer = await daemon.askJson<DifferencesAnswer>(key, signal ? { signal } : {});
  return { key, map, selection, answer };
}

/** Decimal milliseconds with all nanoseconds. */
function millisecondsText(ns: bigint): string {
  return decimal(ns, 6);
}

function larger(a: bigint, b: bigint | null): bigint {
  return b !== null && b > a ? b : a;
}

function smaller(a: bigint, b: bigint | null): bigint {
  return b !== null && b < a ? b : a;
}
