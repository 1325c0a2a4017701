/**
 * Sends every request that the API's document describes to a daemon; the answers become the examples in the document.
 */
import { parseJson, stringify } from '../../base/exact_json.ts';
import type { Endpoint, Example } from '../../contract/endpoint.ts';
import { ENDPOINTS } from '../../contract/openapi.ts';
import { type ExampleDaemon, startExampleDaemon } from './daemon.ts';
import { FIRST_EVENT_ID, TRANSACTION_ID } from './recording.ts';

/* Fixed values for the examples, because the actual values differ between runs and between versions. */
const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
const SESSION_ID = '1fe759e1-b879-4c56-9e4c-b43bd0b65c3b';
const VERSION = '0.1.0';

/** Maximum length of lists of objects, in JSON and in NDJSON; longer lists are truncated. */
const OBJECTS_MAX = 3;
/** The only metric in the example, because other metrics have different values in each run. */
const METRIC = 'kreplay_open_streams';
/**
 * Number of frames in the example of a stream, by operation. A tail has one event. A session has two events and then
 * its state.
 */
const FRAMES: Readonly<Record<string, number>> = { listEvents: 1, streamSession: 3 };

/** Maps an operation to the operation that must precede it, in addition to creating a session. */
const BEFORE: Readonly<Record<string, string>> = {
  listSessions: 'createSession',
  listPins: 'pinTransaction',
  unpinTransaction: 'pinTransaction',
  pauseSession: 'playSession',
  stopSession: 'playSession',
  streamSession: 'stepSession',
};
/**
 * Time for which a session plays before the example's request. At half speed, the commit of the example's transaction
 * is then waiting for the disk.
 */
const PLAYED_NS = 100_000_000n;

const STREAM = 'text/event-stream';

/** Returns the examples by operation name, in the order of the endpoints. */
export async function fetchExamples(): Promise<Record<string, Example>> {
  const daemon = await startExampleDaemon();
  try {
    const withContent = ENDPOINTS.filter(({ success }) => success.content);
    const examples = Object.fromEntries(
      withContent.map((endpoint) => [endpoint.operationId, prepareExample(endpoint)]),
    );
    const questions = ENDPOINTS.flatMap((endpoint) => listTypes(endpoint).map((type) => ({ endpoint, type })));
    // Streams come last, because the metrics count open streams.
    const inOrder = [
      ...questions.filter(({ type }) => type !== STREAM),
      ...questions.filter(({ type }) => type === STREAM),
    ];
    for (const { endpoint, type } of inOrder) {
      const answer = await ask(daemon, endpoint, type);
      if (type !== undefined) examples[endpoint.operationId]!.answers[type] = answer;
    }
    return examples;
  } finally {
    await daemon.close();
  }
}

/** Lists the media types of an endpoint's answers; undefined means an answer without content. */
function listTypes({ success }: Endpoint): (string | undefined)[] {
  return success.content ? Object.keys(success.content) : [undefined];
}

/**
 * Creates an example whose media types are in the order of the document; `fetchExamples` fetches them in another order.
 */
function prepareExample(endpoint: Endpoint) {
  const body = parseBody(endpoint);
  const types = Object.keys(endpoint.success.content ?? {});
  const answers: Record<string, unknown> = Object.fromEntries(types.map((type) => [type, null]));
  return { ...(body !== undefined && { body }), answers };
}

/** Requests an answer of the given type. Then removes the sessions and the pin that the requests have created. */
async function ask(daemon: ExampleDaemon, endpoint: Endpoint, type: string | undefined): Promise<unknown> {
  const { operationId, curl } = endpoint;
  const session = curl.includes('$session') ? await createSession(daemon) : '';
  const before = BEFORE[operationId];
  if (before !== undefined) {
    await send(daemon, findEndpoint(before), session);
    if (before === 'playSession') await daemon.pass(PLAYED_NS);
  }
  const res = await send(daemon, endpoint, session, type);
  const text = type === STREAM ? await readFrames(res, FRAMES[operationId]!) : await res.text();
  await forgetAll(daemon);
  return shorten(operationId, type, text.replaceAll(UUID, SESSION_ID));
}

async function createSession(daemon: ExampleDaemon): Promise<string> {
  const res = await send(daemon, findEndpoint('createSession'), '');
  return ((await res.json()) as { session_id: string }).session_id;
}

/** Removes the sessions and the pin that the requests have created. */
async function forgetAll({ url }: ExampleDaemon): Promise<void> {
  const list = await fetch(`${url}/api/replay/sessions`);
  const { sessions } = (await list.json()) as { sessions: { session_id: string }[] };
  const left = [
    ...sessions.map(({ session_id }) => `replay/sessions/${session_id}`),
    `transactions/${TRANSACTION_ID}/pin`,
  ];
  for (const path of left) await fetch(`${url}/api/${path}`, { method: 'DELETE' });
}

function findEndpoint(operationId: string): Endpoint {
  return ENDPOINTS.find((endpoint) => endpoint.operationId === operationId)!;
}

/** Sends the request in the endpoint's example command; throws if the status differs from the one in the document. */
async function send(daemon: ExampleDaemon, endpoint: Endpoint, session: string, type?: string): Promise<Response> {
  const { operationId, method, success } = endpoint;
  const body = parseBody(endpoint);
  const res = await fetch(daemon.url + buildTarget(endpoint, session, type), {
    method: method.toUpperCase(),
    headers: {
      ...(type !== undefined && { accept: type }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(operationId === 'streamSession' && { 'last-event-id': '0' }),
    },
    ...(body !== undefined && { body: stringify(body) }),
  });
  if (res.status === success.status) return res;
  throw new Error(`${operationId} as ${type}: ${res.status} instead of ${success.status}: ${await res.text()}`);
}

function buildTarget({ curl }: Endpoint, session: string, type: string | undefined): string {
  const [, path = ''] = /"\$api([^"]*)"/.exec(curl)!;
  const target = path
    .replace('$transaction', TRANSACTION_ID)
    .replace('$event', FIRST_EVENT_ID)
    .replace('$session', session);
  // A tail permits no order, and needs a start, because it otherwise has only new events. Columns permit only ascending
  // order.
  if (type === STREAM) return target.replace('&order=desc', '&from=-15m');
  return type === 'application/vnd.kreplay.columns' ? target.replace('&order=desc', '') : target;
}

/** Parses the body in the example command of an endpoint; the command omits a body that has no fields. */
function parseBody({ curl, body }: Endpoint): unknown {
  const [, sent] = /--json '([^']*)'/.exec(curl) ?? [];
  return sent === undefined ? body && {} : parseJson(sent);
}

/** Reads the `retry` line and the frames of the example, and then closes the stream. */
async function readFrames(res: Response, count: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const bytes of res.body!) {
    text += decoder.decode(bytes, { stream: true });
    const chunks = text.split('\n\n');
    // The last chunk may be incomplete.
    if (chunks.length > count + 1)
      return chunks
        .slice(0, count + 1)
        .map((chunk) => `${chunk}\n\n`)
        .join('');
  }
  throw new Error(`a stream ended after ${text}`);
}

/* Converts an answer to an example. */

function shorten(operationId: string, type: string | undefined, text: string): unknown {
  const lines = text.split(/(?<=\n)/);
  if (type === 'application/x-ndjson') return lines.slice(0, OBJECTS_MAX).join('');
  if (type === 'text/plain') return lines.filter((line) => line.includes(METRIC)).join('');
  if (type !== 'application/json') return text;
  const answer = parseJson(text);
  return operationId === 'getDocument' ? shortenDocument(answer as Document) : shortenLists(answer);
}

function shortenLists(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (!Array.isArray(value)) return mapValues(value, shortenLists);
  const areObjects = value.every((item) => typeof item === 'object' && !Array.isArray(item));
  return (areObjects ? value.slice(0, OBJECTS_MAX) : value).map(shortenLists);
}

function mapValues(value: object, change: (value: unknown) => unknown): object {
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, change(item)]));
}

interface Document {
  info: object;
  tags: unknown[];
  paths: Record<string, Record<string, { operationId: string; summary: string }>>;
  components: { securitySchemes: object };
}

/**
 * Shortens the document, because its own example would otherwise contain all of it. Keeps one operation, the last tag
 * and no schemas.
 */
function shortenDocument(document: Document): object {
  const { operationId, summary } = document.paths['/healthz']!.get!;
  return {
    ...document,
    info: { ...document.info, version: VERSION },
    tags: document.tags.slice(-1),
    paths: { '/healthz': { get: { operationId, summary } } },
    components: { securitySchemes: document.components.securitySchemes },
  };
}
