/** Tests that each operation is described, and that its examples are true: valid, and as a real daemon answers. */
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { stringify } from '../../../daemon/base/exact_json.ts';
import type { Endpoint } from '../../../daemon/contract/endpoint.ts';
import { ENDPOINTS, EXAMPLES, openApiDocument } from '../../../daemon/contract/openapi.ts';
import { RECORDING } from '../../../daemon/contract/recorded_examples.ts';
import { columnAnswer } from '../column_answer.ts';
import { exampleRecording } from '../example_recording.ts';
import { framesOf as streamed } from '../replay/frames.ts';
import { type Answer, type Served, serve } from '../served.ts';
import { tailOf } from '../tail/tailed.ts';
import { driftOf } from './drift.ts';

type Content = Record<string, { schema: object; example?: unknown }>;

interface Operation {
  operationId: string;
  summary: string;
  description: string;
  requestBody?: { content: Content };
  responses: Record<string, { content?: Content }>;
}

const TEXT = stringify(openApiDocument());
const DOCUMENT = JSON.parse(TEXT) as { paths: Record<string, Record<string, Operation>> };
const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema(DOCUMENT, 'api');

const operationOf = ({ path, method }: Endpoint) => DOCUMENT.paths[path]![method]!;
const contentOf = (endpoint: Endpoint) => operationOf(endpoint).responses[endpoint.success.status]!.content ?? {};
const bodyOf = (endpoint: Endpoint) => operationOf(endpoint).requestBody?.content['application/json']?.example;

const OPERATIONS = ENDPOINTS.map((endpoint) => [endpoint.operationId, endpoint] as const);
/** Every kind of answer that has content. */
const ANSWERS = ENDPOINTS.flatMap((endpoint) =>
  Object.keys(contentOf(endpoint)).map((type) => [endpoint.operationId, type, endpoint] as const),
);
const exampleOf = (endpoint: Endpoint, type: string) => contentOf(endpoint)[type]!.example;
const endpointOf = (operationId: string) => new Map(OPERATIONS).get(operationId)!;

describe('what the document says', () => {
  test.each(OPERATIONS)('%s is described in one to four sentences', (_, endpoint) => {
    const { summary, description } = operationOf(endpoint);
    expect(description.length).toBeGreaterThan(summary.length);
    expect(description).toMatch(/^[A-Z].*\.$/);
    expect(description.split(/\. (?=[A-Z`])/).length).toBeLessThanOrEqual(4);
  });

  test.each(OPERATIONS)('%s has an example of each body, and of nothing else', (operationId, endpoint) => {
    const { body, answers = {} } = EXAMPLES[operationId] ?? {};
    expect(body !== undefined).toBe(operationOf(endpoint).requestBody !== undefined);
    expect(Object.keys(answers)).toEqual(Object.keys(contentOf(endpoint)));
  });

  test('every example is of an operation', () => {
    expect(Object.keys(EXAMPLES).filter((name) => !endpointOf(name))).toEqual([]);
  });

  test.each(OPERATIONS)('the body of %s is what its command sends', (_, endpoint) => {
    const [, sent] = /--json '([^']*)'/.exec(endpoint.curl) ?? [];
    if (sent !== undefined) expect(bodyOf(endpoint)).toEqual(JSON.parse(sent));
    else expect(bodyOf(endpoint) ?? {}).toEqual({});
  });

  test('a browser, which reads integers as doubles, shows the examples as they are', () => {
    const texts = Object.values(EXAMPLES).map((example) => stringify(example));
    expect(texts.map((text) => JSON.stringify(JSON.parse(text)))).toEqual(texts);
    expect(texts.join('')).toContain(':1763683140247091200,');
  });
});

/** What is wrong with a value by the schema at this place of the document. */
function faults(value: unknown, ...keys: (string | number)[]): string {
  const pointer = keys.map((key) => String(key).replaceAll('~', '~0').replaceAll('/', '~1')).join('/');
  const validate = ajv.getSchema(encodeURI(`api#/${pointer}`))!;
  return validate(value) ? '' : ajv.errorsText(validate.errors);
}

function faultsOfAnswer({ path, method, success }: Endpoint, value: unknown): string {
  const place = ['paths', path, method, 'responses', success.status, 'content', 'application/json', 'schema'];
  return faults(value, ...place);
}

const framesOf = (text: string) => streamed(text).map(({ event, text }) => ({ event, data: JSON.parse(text) }));

const linesOf = (text: string) => text.split('\n').filter((line) => line !== '');

const ofType = (wanted: RegExp) => ANSWERS.filter(([, type]) => wanted.test(type));

describe('examples are valid by their own schemas', () => {
  const bodies = OPERATIONS.filter(([, endpoint]) => operationOf(endpoint).requestBody);
  test.each(bodies)('the body of %s', (_, endpoint) => {
    const { path, method } = endpoint;
    const place = ['paths', path, method, 'requestBody', 'content', 'application/json', 'schema'];
    expect(faults(bodyOf(endpoint), ...place)).toBe('');
  });

  test.each(ofType(/^application\/json$/))('the answer of %s as %s', (_, type, endpoint) => {
    expect(faultsOfAnswer(endpoint, exampleOf(endpoint, type))).toBe('');
  });

  test.each(ofType(/ndjson/))('the events of %s as %s', (_, type, endpoint) => {
    const events = linesOf(String(exampleOf(endpoint, type))).map((line) => JSON.parse(line));
    const page = exampleOf(endpoint, 'application/json') as object;
    expect(events).not.toEqual([]);
    expect(faultsOfAnswer(endpoint, { ...page, events })).toBe('');
  });

  test.each(ofType(/columns/))('the lines of %s as %s', (_, type, endpoint) => {
    const { events, coverage } = columnAnswer(String(exampleOf(endpoint, type)));
    expect(events.length).toBeGreaterThan(1);
    const page = exampleOf(endpoint, 'application/json') as object;
    expect(faultsOfAnswer(endpoint, { ...page, ...JSON.parse(coverage!) })).toBe('');
  });

  test('the frames of a live tail and of a session', () => {
    const [list, stream] = [endpointOf('listEvents'), endpointOf('streamSession')];
    const [tailed, ...more] = framesOf(String(exampleOf(list, 'text/event-stream')));
    expect([tailed?.event, more]).toEqual(['event', []]);
    const page = exampleOf(list, 'application/json') as object;
    expect(faultsOfAnswer(list, { ...page, events: [tailed?.data] })).toBe('');
    const [played, state] = framesOf(String(exampleOf(stream, 'text/event-stream')));
    expect([played?.event, state?.event]).toEqual(['event', 'state']);
    expect(faultsOfAnswer(endpointOf('stepSession'), { session: state?.data, events: [played?.data] })).toBe('');
  });

  test('what is not valid is found', () => {
    expect(faultsOfAnswer(endpointOf('getHealth'), { status: 'well' })).toContain('must be equal to constant');
    expect(faultsOfAnswer(endpointOf('listEvents'), { events: [{}] })).not.toBe('');
  });
});

let app: Served;
let recordingId: string;
beforeAll(async () => {
  const folder = exampleRecording();
  app = await serve(folder, { stateFile: join(folder, 'sessions.sqlite') });
  const { json } = await app.get('/api/events?limit=1');
  recordingId = json.events[0].event_id.slice(0, 16);
});
afterAll(() => app.close());

/** What must have happened for a request to succeed, beyond that there is a session. */
const BEFORE: Readonly<Record<string, string>> = {
  listPins: 'pinTransaction',
  unpinTransaction: 'pinTransaction',
  pauseSession: 'playSession',
  streamSession: 'stepSession',
};

const EVENT_ID = `-${'1'.padStart(16, '0')}`;

interface Sent {
  method: string;
  target: string;
  headers: Record<string, string>;
  body?: string;
}

/** The request of the operation's command, with the body of its example. */
function requestOf(endpoint: Endpoint, session: string, type?: string): Sent {
  const [, path = ''] = /"\$api([^"]*)"/.exec(endpoint.curl)!;
  const isTail = endpoint.operationId === 'listEvents' && type === 'text/event-stream';
  const isColumns = type === 'application/vnd.kreplay.columns';
  const target = path
    .replace('$transaction', 'order-1')
    .replace('$event', recordingId + EVENT_ID)
    .replace('$session', session);
  const body = bodyOf(endpoint);
  return {
    method: endpoint.method.toUpperCase(),
    // The order has no meaning for a tail, and without a start it has only what comes; columns have one order.
    target: target.replace('&order=desc', isTail ? '&from=-15m' : isColumns ? '' : '&order=desc'),
    headers: {
      ...(type !== undefined && { accept: type }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(endpoint.operationId === 'streamSession' && { 'last-event-id': '0' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  };
}

async function newSession(): Promise<string> {
  const { target, ...sent } = requestOf(endpointOf('createSession'), '');
  return (await app.get(target, sent)).json.session_id;
}

/** Prepares what the operation needs, and returns its request. */
async function prepared(endpoint: Endpoint, type?: string): Promise<Sent> {
  await app.get('/api/transactions/order-1/pin', { method: 'DELETE' });
  const session = await newSession();
  const before = BEFORE[endpoint.operationId];
  if (before !== undefined) {
    const { target, ...sent } = requestOf(endpointOf(before), session);
    expect((await app.get(target, sent)).status).toBe(200);
  }
  return requestOf(endpoint, session, type);
}

async function answerOf(endpoint: Endpoint, type?: string): Promise<Answer> {
  const { target, ...sent } = await prepared(endpoint, type);
  const answer = await app.get(target, sent);
  // The recording of the examples had another id.
  return { ...answer, text: answer.text.replaceAll(recordingId, RECORDING) };
}

describe('examples are as a real daemon answers', () => {
  test.each(ofType(/^application\/json$/))('%s as %s', async (operationId, type, endpoint) => {
    const { status, text } = await answerOf(endpoint, type);
    expect(status).toBe(endpoint.success.status);
    const compared = {
      ...(operationId === 'getDocument' && { maps: ['paths', 'paths./healthz.get', 'components'] }),
      // Sessions and the document depend on when they were made, and of which version.
      ...(endpoint.tag === 'events' && { varying: [] }),
    };
    expect(driftOf(exampleOf(endpoint, type), JSON.parse(text), compared)).toEqual([]);
  });

  test.each(ofType(/ndjson/))('%s as %s', async (_, type, endpoint) => {
    const { text } = await answerOf(endpoint, type);
    const [example, real] = [String(exampleOf(endpoint, type)), text].map((some) =>
      linesOf(some).map((line) => JSON.parse(line)),
    );
    expect(driftOf(example, real, { varying: [] })).toEqual([]);
  });

  test.each(ofType(/columns/))('%s as %s', async (_, type, endpoint) => {
    expect((await answerOf(endpoint, type)).text).toBe(exampleOf(endpoint, type));
  });

  test.each(ofType(/event-stream/))('%s as %s', async (_, type, endpoint) => {
    const { target, ...sent } = await prepared(endpoint, type);
    const stream = tailOf(await app.open(target, sent));
    const example = framesOf(String(exampleOf(endpoint, type)));
    const frames = await stream.until(example.length);
    await stream.leave();
    const real = frames.map(({ event, text }) => ({ event, data: JSON.parse(text) }));
    expect(driftOf(example, real)).toEqual([]);
  });

  test.each(ofType(/^text\/(plain|html)$/))('%s as %s', async (_, type, endpoint) => {
    const { text } = await answerOf(endpoint, type);
    const withoutValues = (some: string) => linesOf(some).map((line) => line.replace(/ [\d.]+$/, ''));
    expect(withoutValues(text)).toEqual(expect.arrayContaining(withoutValues(String(exampleOf(endpoint, type)))));
  });

  test('every kind of answer is compared', () => {
    const wanted = [/^application\/json$/, /ndjson/, /columns/, /event-stream/, /^text\/(plain|html)$/].flatMap(ofType);
    expect(wanted).toHaveLength(ANSWERS.length);
  });
});

test('what an example has and a real answer has not is found, and the other way round', () => {
  const real = { a: 1, list: [{ type: 'x', b: 1 }, { type: 'y' }], none: [], rest: { c: null } };
  expect(driftOf(real, real, { varying: [] })).toEqual([]);
  expect(driftOf({ ...real, list: [{ type: 'y' }] }, real)).toEqual([]);
  expect(driftOf({ ...real, old: 1 }, real)).toEqual(['.old']);
  expect(driftOf({ list: [{ type: 'x' }], none: [1], rest: { c: 2 } }, real)).toEqual(['.a', '.none']);
  expect(driftOf({ ...real, list: [{ type: 'x', b: 2 }] }, real, { varying: [] })).toEqual(['.list.[].b']);
  expect(driftOf({ ...real, a: 2 }, real, { varying: ['a'] })).toEqual([]);
  expect(driftOf({ ...real, rest: {} }, real, { maps: ['rest'] })).toEqual([]);
  expect(driftOf({ ...real, rest: [] }, real)).toEqual(['.rest']);
});
