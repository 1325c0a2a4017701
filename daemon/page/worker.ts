/** The page's second thread: reads events as columns, so that no task of the first one takes long. */
import { createColumnsBuilder } from './columns/builder.ts';
import { buffersOf } from './columns/event_columns.ts';
import type { Coverage } from './feed/answers.ts';
import { asFailure, FailedRequest, failureOf } from './feed/failure.ts';
import type { ColumnsAnswer, ColumnsQuestion } from './feed/load_columns.ts';

const MEDIA_TYPE = 'application/vnd.kreplay.columns';
/** The first picture is drawn from this many events, and the last from all. */
const FIRST_EVENTS = 4096;

/** What a worker has in place of a window: the types of the page's first thread do not have it. */
declare const self: {
  postMessage(message: ColumnsAnswer, buffers: ArrayBuffer[]): void;
  addEventListener(type: 'message', listener: (event: MessageEvent<ColumnsQuestion>) => void): void;
};

self.addEventListener('message', async ({ data }) => {
  const answer = (message: ColumnsAnswer, buffers: ArrayBuffer[] = []) => self.postMessage(message, buffers);
  try {
    await load(data, answer);
  } catch (error) {
    answer({ kind: 'failed', failure: asFailure(error) });
  }
});

async function load(
  { path, most, headers }: ColumnsQuestion,
  answer: (message: ColumnsAnswer, buffers?: ArrayBuffer[]) => void,
): Promise<void> {
  const response = await fetch(path, {
    headers: { ...headers, Accept: MEDIA_TYPE },
    ...{ credentials: 'omit', cache: 'no-store', redirect: 'error', referrerPolicy: 'no-referrer' },
  });
  if (!response.ok) throw new FailedRequest(await failureOf(response));
  const builder = createColumnsBuilder();
  let hasShown = false;
  for await (const line of linesOf(response)) {
    builder.add(line);
    if (builder.count >= most) break;
    if (hasShown || builder.count < FIRST_EVENTS) continue;
    hasShown = true;
    answer({ kind: 'first', columns: builder.finish() });
  }
  const { coverage } = builder;
  if (coverage === null && builder.count < most) throw new Error('the answer was cut: events are missing at its end');
  const columns = builder.finish();
  answer({ kind: 'all', columns, coverage: coverage as Coverage | null }, buffersOf(columns));
}

async function* linesOf(response: Response): AsyncGenerator<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (rest + part.value).split('\n');
    rest = lines.pop()!;
    yield* lines;
  }
  if (rest !== '') yield rest;
}
