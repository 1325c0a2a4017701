/**
 * Requests of the overview to the daemon: for the map, for the slowest transactions of the selection, and for the
 * differences between the selection and the rest.
 */
import type {
  DifferencesAnswer,
  HeatmapAnswer,
  MapKind,
  ReceivedTransaction,
  TransactionList,
} from '../../contract/received.ts';
import { formatDecimal } from '../../model/wording/exact_times.ts';
import type { Daemon } from '../api/daemon.ts';
import { buildPopulationParameters } from '../link/filters.ts';
import type { Link } from '../link/link.ts';
import { findBox, type LinkBox, OPEN_BOX } from './box.ts';
import { computeMapScale, type MapCell, type MapScale, mergeCells } from './scale.ts';
import { computeExactTail, LIST_MAX, narrowTail, tailOfCells, tailSize } from './tail.ts';

/**
 * An answer with the key of its question. An old answer is kept until the next one arrives; its key shows that it is
 * old.
 */
export interface KeyedAnswer {
  key: string;
}

export interface LatencyMap extends KeyedAnswer {
  answer: HeatmapAnswer;
  of: MapKind;
  /** Whether the map shows events because no transaction is recorded. */
  isUnlabelled: boolean;
  /** Query parameters of the map's filters, without its window. */
  filters: string;
  isFailedOnly: boolean;
  scale: MapScale;
  cells: MapCell[];
}

export interface Selection {
  kind: 'slowest' | 'failed' | 'box';
  box: LinkBox;
  isFailed: boolean;
}

export interface SlowestQuestion extends KeyedAnswer {
  map: LatencyMap;
  path: string;
  /** The longest duration to list, in nanoseconds; null for no limit. */
  most: bigint | null;
  /**
   * Number of transactions in the slowest 2 %; 0 if the user has made another selection, or with too few transactions.
   */
  size: number;
}

export interface SlowestTransactions extends KeyedAnswer {
  transactions: ReceivedTransaction[];
  /** The shortest duration in the slowest 2 %; null if it was not requested. */
  tailNs: bigint | null;
  /**
   * Whether transactions of the box are missing: the list begins with longer transactions, and only its first pages
   * are read.
   */
  isCut: boolean;
}

export interface Apart extends KeyedAnswer {
  map: LatencyMap;
  selection: Selection;
  answer: DifferencesAnswer;
}

/** Maximum number of transactions in the list. */
export const LISTED_MAX = 50;
/**
 * Maximum number of pages that are read for a box with an upper limit, because the first pages list transactions that
 * are longer than this limit.
 */
const PAGES_MAX = 3;

export function mapPath(link: Link, columns: number, of = link.of ?? 'transactions'): string {
  const parameters = buildPopulationParameters(link);
  if (link.has_error) parameters.set(of === 'transactions' ? 'has_error' : 'failed', 'true');
  parameters.set('of', of);
  parameters.set('columns', String(columns));
  parameters.set('coverage', 'full');
  return `/api/heatmap?${parameters}`;
}

/** Requests the map of transactions, or the map of events if the link says so or if no transaction is recorded. */
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
  const filters = buildPopulationParameters({ ...link, from: null, to: null }).toString();
  const scale = computeMapScale(answer);
  const about = { key, of: answer.of, isUnlabelled, filters, isFailedOnly: link.has_error };
  return { ...about, answer, scale, cells: mergeCells(answer, scale) };
}

/**
 * Chooses the selection of the link: its box, its failures or, by default, the slowest 2 %. Returns null if the
 * shortest duration of the slowest is not known yet, or if the map has too few transactions or events.
 */
export function chooseSelection(
  link: Link,
  map: LatencyMap,
  slowest: SlowestTransactions | 'failed' | null,
): Selection | null {
  const box = findBox(link);
  if (box) return { kind: 'box', box, isFailed: link.box_failed };
  if (link.box_failed) return { kind: 'failed', box: OPEN_BOX, isFailed: true };
  const size = tailSize(map.answer.total.count);
  if (size === 0) return null;
  if (map.of === 'transactions' && slowest === null) return null;
  const exactNs = slowest === null || slowest === 'failed' ? null : slowest.tailNs;
  return { kind: 'slowest', box: { ...OPEN_BOX, box_min: exactNs ?? tailOfCells(map.answer, size) }, isFailed: false };
}

/**
 * Builds the request for the slowest transactions of the selection; null if there are no transactions. If one list can
 * contain the slowest 2 %, the request asks for these and one more transaction, from which their exact limit is
 * computed.
 */
export function buildSlowestQuestion(link: Link, map: LatencyMap): SlowestQuestion | null {
  if (map.of !== 'transactions' || map.answer.total.count === 0) return null;
  const box = findBox(link) ?? OPEN_BOX;
  const isChosen = findBox(link) !== null || link.box_failed;
  const parameters = buildWindowParameters(map, box);
  if (box.box_min !== null) parameters.set('min_duration_ms', formatMilliseconds(box.box_min));
  if (link.box_failed) parameters.set('has_error', 'true');
  parameters.set('sort', 'slowest');
  const size = isChosen ? 0 : tailSize(map.answer.total.count);
  const count = size < LIST_MAX ? Math.max(size + 1, LISTED_MAX) : LISTED_MAX;
  parameters.set('limit', String(box.box_max === null ? count : LIST_MAX));
  const path = `/api/transactions?${parameters}`;
  return { map, path, size, most: box.box_max, key: `${path} ${box.box_max ?? ''} ${size}` };
}

/** Builds the query parameters for a map's filters and window, limited to the time of a box. */
function buildWindowParameters(map: LatencyMap, { box_from, box_to }: LinkBox): URLSearchParams {
  const parameters = new URLSearchParams(map.filters);
  const from = chooseLarger(BigInt(map.answer.from), box_from);
  const to = chooseSmaller(BigInt(map.answer.to), box_to);
  parameters.set('from', from.toString());
  parameters.set('to', (to < from ? from : to).toString());
  if (map.isFailedOnly) parameters.set('has_error', 'true');
  return parameters;
}

/**
 * Builds the query parameters of a search for transactions of a map, the slowest first; the caller adds the search
 * text.
 */
export function buildSearchParameters(map: LatencyMap): string {
  return `${buildWindowParameters(map, OPEN_BOX)}&sort=slowest`;
}

export async function askSlowest(
  daemon: Pick<Daemon, 'askJson'>,
  question: SlowestQuestion,
  signal?: AbortSignal,
): Promise<SlowestTransactions> {
  const { path, key, most, size, map } = question;
  const asked = signal ? { signal } : {};
  const found: ReceivedTransaction[] = [];
  for (let page = 0, next = ''; ; page++) {
    const list = await daemon.askJson<TransactionList>(path + next, asked);
    found.push(...list.transactions.filter(({ duration_ns }) => most === null || BigInt(duration_ns) <= most));
    const isEnd = most === null || list.next_cursor === null || found.length >= LISTED_MAX;
    if (isEnd || page + 1 === PAGES_MAX) {
      const isListed = size < LIST_MAX && found.length > 0;
      const tailNs =
        size === 0 ? null : isListed ? computeExactTail(found, size) : await askTail(daemon, map, size, asked);
      return { key, transactions: found, tailNs, isCut: !isEnd };
    }
    next = `&cursor=${encodeURIComponent(list.next_cursor!)}`;
  }
}

/**
 * Requests the shortest duration of a tail that is longer than one list. Each request asks for a map with a single
 * column, which counts the transactions that take at least a given duration.
 */
function askTail(
  daemon: Pick<Daemon, 'askJson'>,
  map: LatencyMap,
  size: number,
  asked: { signal?: AbortSignal },
): Promise<bigint> {
  return narrowTail(map.answer, size, async (ns) => {
    const parameters = buildWindowParameters(map, OPEN_BOX);
    parameters.set('columns', '1');
    parameters.set('min_duration_ms', formatMilliseconds(ns));
    const { total } = await daemon.askJson<HeatmapAnswer>(`/api/heatmap?${parameters}`, asked);
    return total.count;
  });
}

export function buildDifferencesPath(map: LatencyMap, { box, isFailed }: Selection): string {
  const parameters = new URLSearchParams(map.filters);
  parameters.set('of', map.of);
  parameters.set('window_from', String(map.answer.from));
  parameters.set('window_to', String(map.answer.to));
  if (map.isFailedOnly) parameters.set('window_failed', 'true');
  if (box.box_from !== null) parameters.set('from', box.box_from.toString());
  if (box.box_to !== null) parameters.set('to', box.box_to.toString());
  if (box.box_min !== null) parameters.set('min_duration_ms', formatMilliseconds(box.box_min));
  if (box.box_max !== null) parameters.set('max_duration_ms', formatMilliseconds(box.box_max));
  if (isFailed) parameters.set('failed', 'true');
  return `/api/differences?${parameters}`;
}

export async function askApart(
  daemon: Pick<Daemon, 'askJson'>,
  map: LatencyMap,
  selection: Selection,
  signal?: AbortSignal,
): Promise<Apart> {
  const key = buildDifferencesPath(map, selection);
  const answer = await daemon.askJson<DifferencesAnswer>(key, signal ? { signal } : {});
  return { key, map, selection, answer };
}

/** Formats a time in decimal milliseconds, exact to the nanosecond. */
function formatMilliseconds(ns: bigint): string {
  return formatDecimal(ns, 6);
}

function chooseLarger(a: bigint, b: bigint | null): bigint {
  return b !== null && b > a ? b : a;
}

function chooseSmaller(a: bigint, b: bigint | null): bigint {
  return b !== null && b < a ? b : a;
}
