/**
 * Receives Alertmanager's webhook. For each firing alert, keeps the transaction whose id is in the alert's labels. If
 * the labels have no id, keeps the slowest transactions of the alert's period, limited to the service in the labels, if
 * any.
 */
import { createHash } from 'node:crypto';
import { setImmediate as yieldNow } from 'node:timers/promises';
import { z } from 'zod';
import { parseEventId } from '../base/event_id.ts';
import type { TransactionSummary } from '../store/store.ts';
import type { FoundMatch } from './state.ts';
import { addMatch, buildLimits, listRecordings, noteAdded, type WatcherOptions } from './watcher.ts';

/** The fields of the webhook's body that are used. Alertmanager has sent only version 4 since its release 0.5. */
export const alertmanagerBody = z.object({
  version: z.literal('4', { error: 'must be "4": this is not the webhook of Alertmanager' }),
  alerts: z.array(
    z.object({
      status: z.enum(['firing', 'resolved']),
      labels: z.record(z.string(), z.string()),
      startsAt: z.iso.datetime({ offset: true }),
      endsAt: z.iso.datetime({ offset: true }),
    }),
  ),
});

type Alert = z.infer<typeof alertmanagerBody>['alerts'][number];

/** Maximum number of firing alerts that one request handles; further alerts are counted as ignored. */
export const ALERTS_MAX = 32;
const NAME_CHARACTERS_MAX = 64;
const NS_PER_MS = 1_000_000n;

export interface AlertOptions {
  /** Maximum number of transactions that one alert keeps. */
  transactionsMax: number;
  /** Length of the period before an alert's start in which transactions are searched. */
  lookbackNs: bigint;
}

export interface AcceptedAlert {
  alert: string;
  transactions: string[];
}

/**
 * Handles one request at a time. Resolves once the matches are on disk; `ignored` counts firing alerts beyond
 * ALERTS_MAX.
 */
export type TakeAlerts = (alerts: readonly Alert[]) => Promise<{ accepted: AcceptedAlert[]; ignored: number }>;

export function createAlertTaker(watcher: WatcherOptions, options: AlertOptions): TakeAlerts {
  let last: Promise<unknown> = Promise.resolve();
  return (alerts) => {
    const firing = alerts.filter(({ status }) => status === 'firing');
    const taken = last.then(async () => {
      const accepted: AcceptedAlert[] = [];
      for (const alert of firing.slice(0, ALERTS_MAX)) accepted.push(await takeAlert(watcher, options, alert));
      return { accepted, ignored: Math.max(0, firing.length - ALERTS_MAX) };
    });
    last = taken.catch(() => {});
    return taken;
  };
}

async function takeAlert(watcher: WatcherOptions, options: AlertOptions, alert: Alert): Promise<AcceptedAlert> {
  const { state } = watcher;
  const rule = nameAlert(alert);
  const key = identify(alert);
  // Alertmanager repeats a notification for as long as the alert fires.
  if (state.hasAlert(key)) return { alert: rule, transactions: [] };
  const transactions = listRecordings(watcher).length > 0 ? await findTransactions(watcher, options, alert) : [];
  if (transactions.length === 0) return { alert: rule, transactions: [] };
  const nowMs = Date.now();
  const found = transactions.map(
    ({ transactionId, services, lastEndNs, slowestEventId }): FoundMatch => ({
      rule,
      transactionId,
      recordingId: parseEventId(slowestEventId)!.recordingId,
      service: alert.labels.service ?? services[0] ?? '',
      atNs: lastEndNs,
    }),
  );
  const added = state.change(() => {
    const all = found.flatMap((one) => addMatch(watcher, one, buildLimits(watcher), nowMs));
    state.addAlert(key, nowMs);
    return all;
  });
  noteAdded(watcher, added, 'alert');
  return { alert: rule, transactions: found.map(({ transactionId }) => transactionId) };
}

async function findTransactions(
  { recordings }: WatcherOptions,
  { transactionsMax: limit, lookbackNs }: AlertOptions,
  { labels, startsAt, endsAt }: Alert,
): Promise<TransactionSummary[]> {
  const { service, transaction_id: id = labels.transaction } = labels;
  if (id !== undefined) {
    const transaction = recordings.findTransaction(id);
    return transaction ? [transaction] : [];
  }
  const [startNs, endNs] = [toNs(startsAt), toNs(endsAt)];
  // Alertmanager sends the year 1 as the end of an alert that still fires.
  const toExclusiveNs = endNs > startNs ? endNs : BigInt(Date.now() + 1) * NS_PER_MS;
  const range = { fromNs: startNs - lookbackNs, toNs: toExclusiveNs };
  const filter = { ...range, ...(service !== undefined && { services: [service] }) };
  const steps = recordings.listTransactions({ filter, sort: 'slowest', limit });
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value.transactions;
    await yieldNow();
  }
}

const toNs = (time: string) => BigInt(Date.parse(time)) * NS_PER_MS;

/**
 * Builds the rule name for an alert's matches. The colon distinguishes it from the names of rules, which have no colon.
 */
function nameAlert({ labels }: Alert): string {
  return `alert:${(labels.alertname ?? 'unnamed').slice(0, NAME_CHARACTERS_MAX).replaceAll(/[^\w.-]/g, '_')}`;
}

/** Builds a key from the labels and the start, because an alert that fires again later has another start. */
function identify({ labels, startsAt }: Alert): string {
  const sorted = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256')
    .update(JSON.stringify([sorted, startsAt]))
    .digest('hex');
}
