/**
 * Copies events of a fleet into recordings on this machine, one for each recording of the fleet. Event ids stay the
 * same. A copy is a snapshot: events that arrive later, or are removed from the fleet, do not change it.
 */

import { join } from 'node:path';
import { takeRows } from '../../../agent/recording/read/assemble_block.ts';
import { type BundleWriter, createBundle } from '../../../agent/recording/write/bundle.ts';
import type { FileKind } from '../../../bpf/schema/owner.ts';
import { max, min } from '../../base/bigints.ts';
import { remapBlock } from '../../export/remap.ts';
import {
  createRecordingReader,
  type Dictionary,
  type NodeRecording,
  type ScannedBlock,
} from '../../store/blocks/scanned_block.ts';
import type { Fleet } from '../../store/fleet/fleet.ts';
import { readFleetClockSteps, readFleetLosses } from '../../store/fleet/fleet_info.ts';
import { scanFleet } from '../../store/fleet/scan.ts';
import type { TransactionSummary } from '../../store/store.ts';

interface Copied {
  writer: BundleWriter;
  node: string;
  /**
   * Numbers of the events copied so far, because an event may belong to several transactions; not filled if only one
   * transaction is copied.
   */
  shared: Set<bigint>;
}

export interface CopiedFile {
  path: string;
  node: string;
}

/** Copies transactions into files in an empty folder, and returns the files. Rejects soon after `signal` aborts. */
export async function copyTransactions(
  fleet: Fleet,
  transactions: readonly TransactionSummary[],
  folder: string,
  signal: AbortSignal,
): Promise<CopiedFile[]> {
  const copies = new Map<string, Copied>();
  const files: CopiedFile[] = [];
  const createdNs = transactions.map(({ firstTimestampNs }) => firstTimestampNs).reduce(min);

  function findOrAddCopy({ recordingId, node }: NodeRecording): Copied {
    const known = copies.get(recordingId);
    if (known) return known;
    const path = join(folder, `${recordingId}.kreplay`);
    const writer = createBundle({ path, recordingId, node, bootId: '', machineId: '', createdNs });
    const made = { writer, node, shared: new Set<bigint>() };
    copies.set(recordingId, made);
    files.push({ path, node });
    return made;
  }

  function append(scanned: ScannedBlock): void {
    const { block, dictionary } = scanned;
    for (const [index, rows] of groupRowsByRecording(scanned)) {
      const copy = findOrAddCopy(dictionary.recording(index));
      const fresh = transactions.length > 1 ? rows.filter((row) => isFresh(copy, block.numbers[row]!)) : rows;
      if (fresh.length > 0)
        copy.writer.append(remapBlock(takeRows(block, fresh), createIdMapper(copy.writer, dictionary)));
    }
  }

  try {
    for (const { transactionId } of transactions) {
      for await (const scanned of scanFleet(fleet, { filter: { transactionId }, order: 'asc' })) {
        signal.throwIfAborted();
        append(scanned);
      }
    }
    await copyNotes(fleet, transactions, copies);
  } finally {
    for (const { writer } of copies.values()) writer.close();
  }
  return files;
}

/** Whether an event was not copied yet; marks it as copied. An event of several transactions is copied only once. */
function isFresh({ shared }: Copied, number: bigint): boolean {
  if (shared.has(number)) return false;
  shared.add(number);
  return true;
}

function groupRowsByRecording({ block }: ScannedBlock): Map<number, Uint32Array> {
  const readRecordingIndex = createRecordingReader(block);
  const rows = Array.from({ length: block.rowCount }, (_, row) => row);
  return new Map([...Map.groupBy(rows, readRecordingIndex)].map(([index, own]) => [index, Uint32Array.from(own)]));
}

function createIdMapper(writer: BundleWriter, dictionary: Dictionary) {
  return {
    name: (id: number) => writer.nameId(dictionary.name(id)),
    file(id: number) {
      const file = dictionary.file(id);
      return file ? writer.fileId(file.path, file.kind as FileKind) : 0;
    },
    context: (id: number) => writer.contextId(dictionary.context(id)),
  };
}

/** Copies the losses and the clock steps in the time range of the transactions. */
async function copyNotes(
  fleet: Fleet,
  transactions: readonly TransactionSummary[],
  copies: ReadonlyMap<string, Copied>,
): Promise<void> {
  const fromNs = transactions.map(({ firstTimestampNs }) => firstTimestampNs).reduce(min);
  const toNs = transactions.map(({ lastEndNs }) => lastEndNs).reduce(max) + 1n;
  const nodes = [...new Set([...copies.values()].map(({ node }) => node))];
  for (const { node, lost, cause, ...loss } of await readFleetLosses(fleet, fromNs, toNs, nodes, 'all')) {
    const copy = [...copies.values()].find((one) => one.node === node);
    copy?.writer.recordLoss({ ...loss, cause: cause as never, eventType: null, count: lost });
  }
  for (const [recordingId, steps] of await readFleetClockSteps(fleet, [...copies.keys()]))
    for (const step of steps) copies.get(recordingId)!.writer.recordClock(step);
}
