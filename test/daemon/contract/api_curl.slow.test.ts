/** Tests that the README's curl command for each endpoint works as written. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { recorded, START } from '../recorded.ts';
import { serve } from '../served.ts';

const PAGE = readFileSync(join(import.meta.dirname, '../../../daemon/docs/api.md'), 'utf8');
const [, CHAPTER = ''] = PAGE.split('## Endpoints');
const [, SET_UP = ''] = /```sh\n(.*?)```/s.exec(CHAPTER) ?? [];
const ROW = /^\| `(?<endpoint>[A-Z]+ [^`]+)` \| [^|]+ \| `(?<curl>[^`]+)` \|$/gm;
const EXAMPLES = [...CHAPTER.matchAll(ROW)].map(({ groups }) => [groups!.endpoint!, groups!.curl!] as const);

/** Request that must be sent before another one can succeed. */
const BEFORE: Readonly<Record<string, string>> = {
  'DELETE /api/transactions/{transaction_id}/pin': 'POST /api/transactions/{transaction_id}/pin',
  'POST /api/replay/sessions/{session_id}/pause': 'POST /api/replay/sessions/{session_id}/play',
  'GET /api/replay/sessions/{session_id}/events': 'POST /api/replay/sessions/{session_id}/play',
};

const run = promisify(execFile);
let address: string;
let close: () => Promise<void>;

beforeAll(async () => {
  const rows = Array.from({ length: 5 }, (_, i) => ({ at: START + BigInt(i) * 500_000_000n, transaction: 'order-1' }));
  const app = await serve(recorded(rows));
  address = app.url;
  close = app.close;
});

afterAll(() => close());

test.each(EXAMPLES)('%s', async (endpoint, curl) => {
  const before = new Map(EXAMPLES).get(BEFORE[endpoint] ?? '') ?? 'true';
  const setUp = SET_UP.replace('http://127.0.0.1:7467', address);
  const strict = curl.replace('curl -s', 'curl -s --fail-with-body');
  const script = `set -euo pipefail\n${setUp}\n${before} >/dev/null\n${strict}`;
  const { stdout } = await run('bash', ['-c', script], { maxBuffer: 1 << 24 });
  expect(stdout !== '').toBe(!endpoint.startsWith('DELETE'));
});

test('there is an example for each kind of request', () => {
  expect(EXAMPLES.length).toBeGreaterThan(20);
});
