/** Tests that each operation is described, and that its examples are true: valid, and as a daemon answers now. */
import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { stringify } from '../../../daemon/base/exact_json.ts';
import type { Endpoint, Example } from '../../../daemon/contract/endpoint.ts';
import { EXAMPLES } from '../../../daemon/contract/gen/examples.ts';
import { ENDPOINTS, openApiDocument } from '../../../daemon/contract/openapi.ts';
import { buildExamplesText, EXAMPLES_FILE } from '../../../daemon/server/examples/generate.ts';
import { columnAnswer } from '../column_answer.ts';
import { framesOf as streamed } from '../replay/frames.ts';

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
    const { body, answers = {} }: Example = EXAMPLES[operationId] ?? {};
    expect(body !== undefined).toBe(operationOf(endpoint).requestBody !== undefined);
    expect(Object.keys(answers)).toEqual(Object.keys(contentOf(endpoint)));
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
    const played = framesOf(String(exampleOf(stream, 'text/event-stream')));
    expect(played.map(({ event }) => event)).toEqual(['event', 'event', 'state']);
    const [first, second, state] = played.map(({ data }) => data);
    expect(faultsOfAnswer(endpointOf('stepSession'), { session: state, events: [first, second] })).toBe('');
  });

  test('what is not valid is found', () => {
    expect(faultsOfAnswer(endpointOf('getHealth'), { status: 'well' })).toContain('must be equal to constant');
    expect(faultsOfAnswer(endpointOf('listEvents'), { events: [{}] })).not.toBe('');
  });
});

test('examples are as a daemon answers; `make gen` writes them', async () => {
  expect(await buildExamplesText()).toBe(readFileSync(EXAMPLES_FILE, 'utf8'));
});
