/**
 * Requests generated from the API's own document, allowed ones and hostile ones: none causes an internal error, every
 * answer conforms to the document, and a refusal names what it refuses.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc, { type Arbitrary } from 'fast-check';
import { columnAnswer } from '../daemon/column_answer.ts';
import { recorded, START } from '../daemon/recorded.ts';
import { type Answer, type Sent, type Served, serve } from '../daemon/served.ts';
import { times } from '../repeats.ts';
import { allowed, hostileJson, hostileText, type JsonSchema } from './arbitrary.ts';

const RUNS = times(600);
/** The limit grows with the number of runs. */
const TIMEOUT_MS = RUNS * 100 + 60_000;

const COLUMNS = 'application/vnd.kreplay.columns';

interface Parameter {
  in: 'query' | 'path' | 'header';
  name: string;
  schema: JsonSchema;
}

interface Operation {
  operationId: string;
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: JsonSchema }> };
  responses: Record<string, { content?: Record<string, { schema: JsonSchema }> }>;
}

interface Request {
  method: string;
  /** Path template, as in the document. */
  path: string;
  operation: Operation;
  target: string;
  sent: Sent;
  /** The hostile part: a parameter, a field of the body, or '' for the body; 'none' may add an unknown parameter. */
  culprit: string | undefined;
}

let app: Served;
let session: string | undefined;
let eventIds: string[];
let requests: Arbitrary<Request>;
let answerProblems: (request: Request, answer: Answer) => string[];

beforeAll(async () => {
  app = await serve(recorded(Array.from({ length: 300 }, (_, i) => row(i))));
  const document = (await app.get('/openapi.json')).json;
  await renewSession();
  eventIds = (await app.get('/api/events?limit=20')).json.events.map((event: { event_id: string }) => event.event_id);
  const operations = Object.entries(document.paths as Record<string, Record<string, Operation>>).flatMap(
    ([path, methods]) => Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  );
  requests = fc.oneof(...operations.map(requestOf));
  answerProblems = checker(document);
}, 60_000);

afterAll(() => app.close());

async function renewSession(): Promise<void> {
  if (session) await app.get(`/api/replay/sessions/${session}`, { method: 'DELETE' });
  const headers = { 'content-type': 'application/json' };
  const answer = await app.get('/api/replay/sessions', {
    method: 'POST',
    headers,
    body: '{"transaction_id":"order-1"}',
  });
  session = answer.json.session_id;
}

function row(i: number) {
  return {
    at: START + BigInt(i) * 1_000_000n,
    transaction: `order-${i % 7}`,
    service: ['shop', 'db', 'mail'][i % 3]!,
    trace: (i % 7).toString(16).padStart(32, '4'),
    result: i % 11 === 0 ? -28n : 64n,
  };
}

/** Values that exist in the recording, by the name of the parameter or field. */
function known(name: string): Arbitrary<unknown> | undefined {
  if (name === 'transaction_id') return fc.constantFrom('order-1', 'order-2');
  if (name === 'event_id') return fc.nat({ max: eventIds.length - 1 }).map((i) => eventIds[i]);
  if (name === 'session_id') return fc.constant(null).map(() => session);
  return undefined;
}

function aValueOf(name: string, schema: JsonSchema): Arbitrary<unknown> {
  const existing = known(name);
  return existing
    ? fc.oneof({ weight: 3, arbitrary: existing }, { weight: 1, arbitrary: allowed(schema) })
    : allowed(schema);
}

const seldom = <T>(arbitrary: Arbitrary<T>) =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

type Place = Pick<Request, 'method' | 'path' | 'operation'>;

function requestOf(place: Place): Arbitrary<Request> {
  const { parameters = [], requestBody } = place.operation;
  const schema = requestBody && Object.values(requestBody.content)[0]!.schema;
  const names = [
    ...parameters.map(({ name }) => name),
    ...(schema ? ['', ...Object.keys(schema.properties ?? {})] : []),
  ];
  const valuesOf = (of: Parameter): Arbitrary<unknown> =>
    of.in === 'path' ? aValueOf(of.name, of.schema) : seldom(aValueOf(of.name, of.schema));
  return fc
    .record({
      values: fc.record(Object.fromEntries(parameters.map((of) => [of.name, valuesOf(of)]))),
      body: schema ? bodyValues(schema) : fc.constant(undefined),
      culprit: fc.option(fc.constantFrom(...names, 'none'), { nil: undefined, freq: 2 }),
      text: hostileText,
      json: hostileJson,
      unknown: fc.boolean(),
      accept: fc.constantFrom(...Object.keys(place.operation.responses[200]?.content ?? {}), undefined),
    })
    .map((made) => assemble(place, parameters, schema, made));
}

const bodyValues = ({ properties = {}, required = [] }: JsonSchema): Arbitrary<unknown> =>
  fc.record(Object.fromEntries(Object.entries(properties).map(([name, of]) => [name, aValueOf(name, of)])), {
    requiredKeys: required,
  });

interface Made {
  values: Record<string, unknown>;
  body: unknown;
  culprit: string | undefined;
  text: string;
  json: string;
  unknown: boolean;
  accept: string | undefined;
}

function assemble(place: Place, parameters: readonly Parameter[], schema: JsonSchema | undefined, made: Made): Request {
  const headers: Record<string, string> = made.accept === undefined ? {} : { accept: made.accept };
  const query: string[] = [];
  let target = place.path;
  for (const { in: where, name } of parameters) {
    const value = made.culprit === name ? made.text : made.values[name];
    if (where === 'path') target = target.replace(`{${name}}`, encodeURIComponent(wellFormed(String(value))) || '%20');
    // A header value can contain only these characters.
    else if (where === 'header' && value !== undefined) headers[name] = String(value).replace(/[^\x20-\x7e]/g, '?');
    else if (where === 'query')
      for (const one of [value].flat().filter((item) => item !== undefined))
        query.push(`${name}=${encodeURIComponent(wellFormed(String(one)))}`);
  }
  if (made.culprit === 'none' && made.unknown) query.push('nope=1');
  const sent: Sent = { method: place.method.toUpperCase(), headers };
  if (schema) {
    headers['content-type'] = 'application/json';
    sent.body = bodyOf(schema, made);
  }
  return { ...place, target: query.length > 0 ? `${target}?${query.join('&')}` : target, sent, culprit: made.culprit };
}

/** Half a surrogate pair cannot be sent. */
const wellFormed = (text: string) => text.toWellFormed();

function bodyOf(schema: JsonSchema, { body, culprit, json }: Made): string {
  if (culprit === '') return json;
  const fields = Object.entries(body as Record<string, unknown>).filter(([name]) => name !== culprit);
  const texts = fields.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  if (culprit !== undefined && schema.properties && culprit in schema.properties)
    texts.push(`${JSON.stringify(culprit)}:${json}`);
  return `{${texts.join(',')}}`;
}

/** Returns a function that lists what is wrong with an answer. */
function checker(document: object): typeof answerProblems {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema(document, 'api');
  const pointer = (...keys: string[]) => keys.map((key) => key.replaceAll('~', '~0').replaceAll('/', '~1')).join('/');
  return ({ method, path, operation, culprit, target, sent }, answer) => {
    const said = operation.responses[answer.status];
    if (!said) return [`${answer.status} is not in the document`];
    if (answer.status >= 500) return [`${answer.status}: ${answer.text}`];
    const type = answer.headers['content-type']?.split(';')[0];
    if (!said.content) return answer.text === '' ? [] : ['a body that is not in the document'];
    if (!type || !said.content[type]) return [`${type} is not in the document`];
    const found: string[] = [];
    if (type.endsWith('json') && type !== 'application/x-ndjson') {
      const at = `api#/${pointer('paths', path, method, 'responses', String(answer.status), 'content', type, 'schema')}`;
      const valid = ajv.getSchema(encodeURI(at))!;
      if (!valid(answer.json)) found.push(ajv.errorsText(valid.errors));
    }
    if (type === COLUMNS && columnAnswer(answer.text).coverage === undefined) found.push('the last line is missing');
    const isQuery = operation.parameters?.some(({ name, in: where }) => name === culprit && where === 'query');
    const hasHeader = operation.parameters?.some(({ name, in: where }) => where === 'header' && name in sent.headers!);
    const isAlone = target.split(/[?&]/).length === 2 && !hasHeader;
    if (answer.json?.code === 'invalid_parameter' && isQuery && isAlone) {
      const named = (answer.json.errors as { parameter: string }[]).map(({ parameter }) => parameter);
      if (!named.includes(culprit!)) found.push(`names ${named} instead of ${culprit}`);
    }
    return found;
  };
}

test(
  'every answer conforms to the API document',
  async () => {
    await fc.assert(
      fc.asyncProperty(requests, async (request) => {
        const answer = await ask(request);
        expect(answerProblems(request, answer)).toEqual([]);
        const { operationId } = request.operation;
        // Otherwise the limit on sessions would soon be reached.
        if (answer.status === 201) await app.get(`/api/replay/${answer.headers.location}`, { method: 'DELETE' });
        if (answer.status < 300 && ['deleteSession', 'stopSession'].includes(operationId)) await renewSession();
      }),
      { numRuns: RUNS },
    );
  },
  TIMEOUT_MS,
);

/** An endless stream is closed when it has begun. */
async function ask({ target, sent, operation }: Request): Promise<Answer> {
  if (!operation.responses[200]?.content?.['text/event-stream']) return app.get(target, sent);
  const res = await app.open(target, sent);
  const type = res.headers['content-type'] ?? '';
  if (!/event-stream/.test(type)) {
    const chunks: Buffer[] = [];
    for await (const chunk of res) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString('utf8');
    const isJson = /json/.test(type) && !/ndjson/.test(type);
    return { status: res.statusCode!, headers: res.headers, text, json: isJson && text ? JSON.parse(text) : undefined };
  }
  res.destroy();
  return { status: res.statusCode!, headers: res.headers, text: 'frames', json: undefined };
}
