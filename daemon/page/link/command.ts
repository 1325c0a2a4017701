/** The shell command that prints what the page shows. */
import { escapeListItem } from '../../base/list_text.ts';
import { listFilters } from './filters.ts';
import type { Link } from './link.ts';

/** Names of options that differ from the names of their filters. */
const OPTION_NAMES: ReadonlyMap<string, string> = new Map([
  ['event_type', 'type'],
  ['exclude_event_type', 'exclude-type'],
]);

/** Builds the command; `url` is the daemon's address. */
export function buildCommand(link: Link, url: string): string {
  const { view, transaction, other } = link;
  const isOfTwo = view === 'compare' && transaction !== null && other !== null;
  const of = isOfTwo ? [transaction, other] : view === 'lanes' ? [transaction] : [null];
  return of.map((one) => joinCommand(buildCommandWords(link, isOfTwo), one, ['--url', quoteWord(url)])).join(' && ');
}

/**
 * Joins a command with its transaction, if it has one; a transaction name that looks like an option comes last, after
 * `--`.
 */
function joinCommand([command, ...options]: string[], transaction: string | null, last: string[]): string {
  const name = transaction === null ? [] : [quoteWord(transaction)];
  const isLikeOption = transaction?.startsWith('-');
  return [command, ...(isLikeOption ? [] : name), ...options, ...last, ...(isLikeOption ? ['--', ...name] : [])].join(
    ' ',
  );
}

function buildCommandWords(link: Link, isOfTwo: boolean): string[] {
  const { view, transaction, trace, session } = link;
  if (view === 'lanes' && transaction === null) return ['kreplay events --trace', quoteWord(trace ?? '')];
  if (view === 'lanes' && session !== null) return ['kreplay replay', ...buildPlayedOptions(link)];
  if (view === 'lanes' && (link.latency !== null || link.timeout !== null))
    return ['kreplay whatif', ...buildAssumedOptions(link)];
  if (view === 'lanes' || isOfTwo) return ['kreplay show'];
  if (view === 'live') return ['kreplay tail', ...filterOptions(link)];
  if (view === 'health') return ['kreplay doctor'];
  if (view === 'compare')
    return ['kreplay stats --group-by service,event_type,operation,syscall,device', ...buildWindowOptions(link)];
  const shortest = link.box_min === null ? [] : ['--min-duration', `${link.box_min}ns`];
  const failed = link.has_error || link.box_failed ? ['--has-error'] : [];
  const window = { ...link, from: link.box_from ?? link.from, to: link.box_to ?? link.to };
  return ['kreplay transactions --sort slowest', ...buildWindowOptions(window), ...shortest, ...failed];
}

function buildWindowOptions(link: Link): string[] {
  const { from, to } = link;
  const times = [...(from === null ? [] : ['--from', `${from}`]), ...(to === null ? [] : ['--to', `${to}`])];
  return [...filterOptions(link), ...times];
}

function filterOptions(link: Link): string[] {
  return listFilters(link).flatMap(({ name, value }) => [
    `--${OPTION_NAMES.get(name) ?? name.replaceAll('_', '-')}`,
    quoteWord(escapeListItem(value)),
  ]);
}

function buildAssumedOptions({ latency, timeout, clock_offset, ...link }: Link): string[] {
  const only = (['event_type', 'service', 'node'] as const).flatMap((name) =>
    link[`only_${name}`].map((value) => `${name}=${escapeListItem(value)}`),
  );
  return [
    ...(latency === null ? [] : ['--extra-latency', `${latency}ns`]),
    ...(timeout === null ? [] : ['--timeout', `${timeout}ns`]),
    ...only.flatMap((one) => ['--only', quoteWord(one)]),
    ...clock_offset.flatMap((offset) => ['--clock-offset', quoteWord(offset.replace(/:\+?(-?\d+)$/, '=$1ns'))]),
  ];
}

/**
 * Builds the options of `kreplay replay`. The filters that choose which events get the latency are left out, because
 * that command adds it to every call.
 */
function buildPlayedOptions(link: Link): string[] {
  const every = { ...link, only_event_type: [], only_service: [], only_node: [] };
  return [...(link.speed === null ? [] : ['--speed', `${link.speed}`]), ...buildAssumedOptions(every)];
}

/** Quotes a word for a shell. A word without special characters stays as it is. */
function quoteWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
