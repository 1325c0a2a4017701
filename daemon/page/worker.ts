/**
 * The page's second thread, a web worker: it reads events and lays them out as lanes, so that the first thread stays
 * free to draw and to handle input.
 */
import { escapeListItem } from '../base/list_text.ts';
import type { ReceivedCoverage } from '../contract/received.ts';
import { createColumnsBuilder } from '../model/columns/builder.ts';
import { type EventColumns, listDevices } from '../model/columns/event_columns.ts';
import { mergeColumns } from '../model/columns/merge.ts';
import { explain } from '../model/explanation/explain.ts';
import { describeExplanation, describeFirstEvents, findMissing } from '../model/explanation/sentence.ts';
import { computeBreakdown } from '../model/lanes/breakdown.ts';
import { createLanes, listLanesBuffers } from '../model/lanes/model.ts';
import { formatName } from '../model/wording/names.ts';
import { createUnreachableFailure, cutAnswer, FailedRequest, readFailure, toFailure } from './api/failure.ts';
import type { LanesAnswer, LanesQuestion, ReadLanes } from './api/load_lanes.ts';
import { callSums } from './compare/call_sums.ts';
import type { CallsAnswer, CallsQuestion } from './compare/load_calls.ts';
import { computeOutline } from './draw/extents.ts';
import { collectChoices } from './lanes/choices.ts';

const MEDIA_TYPE = 'application/vnd.kreplay.columns';
/** Number of events after which the first picture is drawn. */
const FIRST_EVENTS = 4096;

/** The worker's global object, declared here because the DOM types describe only a window. */
declare const self: {
  postMessage(message: LanesAnswer | CallsAnswer, buffers: ArrayBuffer[]): void;
  addEventListener(type: 'message', listener: (event: MessageEvent<LanesQuestion | CallsQuestion>) => void): void;
};

self.addEventListener('message', async ({ data }) => {
  try {
    await ('kind' in data ? sumCalls(data) : load(data));
  } catch (error) {
    self.postMessage({ kind: 'failed', failure: toFailure(error) }, []);
  }
});

async function load(question: LanesQuestion): Promise<void> {
  const { othersPath, othersMax } = question;
  const notYet = { coverage: null, isOthersCut: null };
  const own = await readOwn(question, (columns) => answer(question, columns, notYet));
  // The request is sent before the own events are laid out, so that the daemon works on its answer meanwhile.
  const response = requestColumns(question, addDevices(othersPath, own.columns()));
  // Posting transfers the memory of the columns to the other thread, so a copy is posted.
  answer(question, own.columns(), { coverage: own.coverage, isOthersCut: null });
  const others = await readColumns(response, othersMax, () => {});
  const isOthersCut = others.coverage === null;
  const columns = own.columns();
  const merged = mergeColumns(columns, others.columns());
  if (merged === columns) self.postMessage({ kind: 'others', isOthersCut }, []);
  else answer(question, merged, { coverage: own.coverage, isOthersCut });
}

async function sumCalls(question: CallsQuestion): Promise<void> {
  const { othersPath, othersMax, transactions, clockOffsetsNs } = question;
  const own = await readOwn(question, () => {});
  const ownColumns = own.columns();
  const response = requestColumns(question, addDevices(othersPath, ownColumns));
  const others = await readColumns(response, othersMax, () => {});
  const columns = mergeColumns(ownColumns, others.columns());
  const model = createLanes(columns, { transactions: new Set(transactions), clockOffsetsNs });
  const { coverage } = own;
  const isOthersCut = others.coverage === null;
  const calls = { sums: callSums(model), breakdown: computeBreakdown(model), coverage, isOthersCut };
  self.postMessage({ kind: 'calls', calls }, []);
}

function answer(
  { transactions, eventCount, name, clockOffsetsNs, firstNs }: LanesQuestion,
  columns: EventColumns,
  known: Pick<ReadLanes, 'coverage' | 'isOthersCut'>,
): void {
  const model = createLanes(columns, { transactions: new Set(transactions), clockOffsetsNs });
  if (firstNs !== undefined && columns.count > 0) model.firstNs = Number(firstNs - model.baseNs);
  const isWhole = known.coverage !== null;
  const explanation = isWhole ? explain(model) : null;
  const breakdown = explanation?.breakdown ?? null;
  const sentence = isWhole
    ? describeExplanation(explanation, name, formatName, findMissing(known.coverage!, known.isOthersCut === true))
    : describeFirstEvents(columns.count, eventCount, name);
  self.postMessage(
    {
      kind: 'lanes',
      lanes: {
        model,
        outline: computeOutline(model),
        choices: collectChoices(model),
        breakdown,
        sentence,
        bursts: explanation?.bursts ?? [],
        ...known,
      },
    },
    listLanesBuffers(model),
  );
}

/**
 * Reads the transactions' events, and the block requests that the transactions' tasks queued. Both are needed to
 * explain how the transactions spent their time.
 */
async function readOwn(question: LanesQuestion, onFirst: (columns: EventColumns) => void): Promise<ReadColumns> {
  const { ownPath, queuedPaths } = question;
  const own = await readColumns(requestColumns(question, ownPath), Number.POSITIVE_INFINITY, onFirst);
  const parts = [own];
  for (const path of queuedPaths)
    parts.push(await readColumns(requestColumns(question, path), Number.POSITIVE_INFINITY, () => {}));
  const columns = () => parts.map((part) => part.columns()).reduce(mergeColumns);
  return { columns, coverage: own.coverage };
}

interface ReadColumns {
  columns(): EventColumns;
  /** Coverage of the answer; null if reading ended early. */
  coverage: ReceivedCoverage | null;
}

/**
 * Adds the transactions' devices to a path, so that the daemon returns the requests of these devices only. Without a
 * known device, the path asks for the requests of all devices, because the transactions may have waited for any of
 * them.
 */
function addDevices(path: string, columns: EventColumns): string {
  const parameters = listDevices(columns).map((name) => `&device=${encodeURIComponent(escapeListItem(name))}`);
  return path + parameters.join('');
}

function requestColumns({ headers }: Pick<LanesQuestion, 'headers'>, path: string): Promise<Response> {
  return fetchPath(path, {
    headers: { ...headers, Accept: MEDIA_TYPE },
    credentials: 'same-origin',
    cache: 'no-store',
    redirect: 'manual',
    referrerPolicy: 'no-referrer',
  });
}

async function readColumns(
  answered: Promise<Response>,
  most: number,
  onFirst: (columns: EventColumns) => void,
): Promise<ReadColumns> {
  const response = await answered;
  if (!response.ok) throw new FailedRequest(await readFailure(response));
  const builder = createColumnsBuilder();
  let hasShown = false;
  for await (const line of readLines(response)) {
    const isFull = builder.count >= most;
    builder.add(line);
    // The line after the last event is the coverage: any other line means that there are more events.
    if (isFull && !builder.coverage) break;
    if (hasShown || builder.count < FIRST_EVENTS) continue;
    hasShown = true;
    onFirst(builder.finish());
  }
  const coverage = builder.coverage as ReceivedCoverage | null;
  if (coverage === null && builder.count < most) throw new FailedRequest(cutAnswer());
  return { columns: builder.finish, coverage };
}

async function fetchPath(path: string, request: RequestInit): Promise<Response> {
  try {
    // The path is relative to the page, which is one level above this script.
    return await fetch(`..${path}`, request);
  } catch (error) {
    throw new FailedRequest(createUnreachableFailure(error));
  }
}

function read(reader: ReadableStreamDefaultReader<string>) {
  return reader.read().catch(() => {
    throw new FailedRequest(cutAnswer());
  });
}

async function* readLines(response: Response): AsyncGenerator<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  try {
    let rest = '';
    for (let part = await read(reader); !part.done; part = await read(reader)) {
      const lines = (rest + part.value).split('\n');
      rest = lines.pop()!;
      yield* lines;
    }
    if (rest !== '') yield rest;
  } finally {
    // Closes the connection even if the answer was not read to its end.
    void reader.cancel();
  }
}
