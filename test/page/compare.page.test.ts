/** Two transactions, windows of time, or reports of runs beside each other, against what the daemon answers. */
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { stringify } from '../../daemon/base/exact_json.ts';
import { newFolder, type Row, recorded, START } from '../daemon/recorded.ts';
import { incidentOf } from '../daemon/run/planned.ts';
import { type Call, ran, saidOf } from '../daemon/run/reported.ts';
import { served } from '../daemon/served.ts';
import { expectReadable } from './axe.ts';
import { newPage } from './browser.ts';

const MS = 1_000_000n;
const SECOND = 1000n * MS;
const TRANSACTIONS = '/#v=1&view=compare&transaction=order-1&other=order-2';

/** A transaction of a write, and syncs of a file. */
const order = (name: string, at: bigint, syncs: readonly bigint[]): Row[] => [
  { at, duration: MS, transaction: name, file: '/srv/log', requested: 1n },
  ...syncs.map((duration, i): Row => {
    const start = at + BigInt(i + 1) * 100n * MS;
    return { type: 'sys_sync', at: start, duration, transaction: name, file: '/srv/wal', comm: 'dd', result: 0n };
  }),
];

/** The cells of a table, by heading, with the row's text where there is no heading. */
const rowsOf = (page: Page, label: string) =>
  page.$$eval(`[aria-label="${label}"]`, ([section]) => {
    const headings = [...section!.querySelectorAll('thead th')].map(({ textContent }) => textContent ?? '');
    return [...section!.querySelectorAll('tbody tr[aria-rowindex]')].map((row) =>
      Object.fromEntries([...row.children].map(({ textContent }, at) => [headings[at], textContent])),
    );
  });

test('two transactions: the sentence, parts that add up, and every call of either', async () => {
  const { url } = await served(
    recorded([
      ...order('order-1', START - 60n * SECOND, [10n * MS]),
      ...order('order-2', START - 30n * SECOND, [10n * MS, 22n * MS]),
      { at: START - 30n * SECOND + 5n * MS, duration: 2n * MS, transaction: 'order-2', file: '/srv/new', result: -28n },
    ]),
  );
  const { page, errors, requested } = await newPage();
  await page.goto(url + TRANSACTIONS);
  await page.waitForSelector('h1:has-text("B took 112.0 ms longer than A")');
  expect(await page.textContent('h1')).toBe(
    'B took 112.0 ms longer than A: 88.0 ms of it on a CPU, or not recorded. ' +
      'Of its calls fsync of shop on /srv/wal changed most: +22.0 ms altogether.',
  );
  expect(await rowsOf(page, 'Calls of both sides')).toEqual([
    expect.objectContaining({ Call: 'fsync', Change: '+22.0 ms', 'Count A': '1', 'Count B': '2', 'p99 B': '22.0 ms' }),
    expect.objectContaining({
      ...{ 'File or device': '/srv/new', Change: '+2.00 ms', 'Count A': '–', 'Count B': '1, ✕ 1', 'Only in': '▷ B' },
    }),
    expect.objectContaining({ Call: 'write', 'File or device': '/srv/log', Change: '0 ns', 'Total A': '1.00 ms' }),
  ]);
  const parts = await page.$$eval('.panel.wide tbody td:nth-child(4)', (cells) =>
    cells.map(({ textContent }) => Number.parseFloat(textContent ?? '')),
  );
  expect(parts.slice(0, -1).reduce((sum, ms) => sum + ms, 0)).toBeCloseTo(parts.at(-1)!);
  await page.click('text=Exchange A and B');
  await page.waitForSelector('h1:has-text("B took 112.0 ms less than A")');
  await page.click('span:has-text("B:") a');
  await page.waitForSelector('.moving');
  expect(page.url()).toContain('transaction=order-1');
  expect(errors).toEqual([]);
  expect(requested.filter((address) => new URL(address).origin !== url)).toEqual([]);
});

test('while one side is read again, what is compared stays two that belong together', async () => {
  const { url } = await served(
    recorded([
      ...order('order-1', START - 60n * SECOND, [10n * MS]),
      ...order('order-2', START - 30n * SECOND, [10n * MS, 22n * MS]),
    ]),
  );
  const { page } = await newPage();
  await page.goto(url + TRANSACTIONS);
  await page.waitForSelector('h1:has-text("B took 112.0 ms longer than A")');
  const { promise, resolve } = Promise.withResolvers<void>();
  await page.route('**/api/transactions/order-1', (route) => void promise.then(() => route.continue()));
  await page.click('text=Exchange A and B');
  await page.waitForSelector('text=What is below is of those before');
  await page.waitForTimeout(300);
  expect(await page.textContent('h1')).toContain('B took 112.0 ms longer than A');
  resolve();
  await page.waitForSelector('h1:has-text("B took 112.0 ms less than A")');
  expect(await page.isVisible('text=What is below is of those before')).toBe(false);
});

test('Back leads from reports to the comparison of the address', async () => {
  const names = ['order-1', 'order-2', 'order-3'];
  const { url } = await served(
    recorded(names.flatMap((name, i) => order(name, START - BigInt(90 - 30 * i) * SECOND, [10n * MS]))),
  );
  const { page } = await newPage();
  await page.goto(url + TRANSACTIONS);
  await page.waitForSelector('h1:has-text("B took as long as A")');
  await page.click('summary:has-text("Choose others")');
  await page.click('[aria-label="order-3 as B"]');
  await page.waitForURL(/other=order-3/);
  await page.click('text=Reports of runs');
  await page.waitForSelector('section[aria-label^="B:"]');
  await page.goBack();
  await page.waitForURL(/other=order-2/);
  await page.waitForSelector('h1:has-text("B took as long as A")');
});

test('digits beyond 2^53 are exact, and names are text', async () => {
  const name = '<img src=x onerror=document.title=1>';
  const { url } = await served(
    recorded([
      { at: START - 2n ** 53n - 9n, duration: 2n ** 53n + 1n, transaction: name, file: '/\u202egnp', service: name },
      { at: START - 50n, duration: 5n, transaction: '__proto__', file: '/__proto__', service: '__proto__' },
    ]),
  );
  const { page, errors } = await newPage();
  await page.goto(`${url}/#v=1&view=compare`);
  await page.waitForSelector('h1:has-text("Choose two transactions.")');
  await page.click('[aria-label="<img src=x onerror=document.title=1> as A"]');
  await page.waitForSelector('h1:has-text("Choose a transaction to compare with <img src=x")');
  await page.click('[aria-label="__proto__ as B"]');
  await page.waitForSelector('h1:has-text("less than A")');
  const rows = await rowsOf(page, 'Calls of both sides');
  expect(rows.map((row) => row['Only in'])).toEqual(['◁ A', '▷ B']);
  expect(rows[0]).toMatchObject({ Service: name, 'File or device': '/\\u{202e}gnp' });
  const exact = await page.$$eval('[aria-label="Calls of both sides"] [title]', (cells) =>
    cells.map((cell) => cell.getAttribute('title')),
  );
  expect(exact.slice(0, 4)).toEqual(['-9 007 199 254.740993 ms', ...Array(3).fill('9 007 199 254.740993 ms')]);
  expect(await page.title()).toMatch(/^\w+ · kreplay$/);
  expect(errors).toEqual([]);
});

test('what is missing, unknown, or too old is said', async () => {
  const rows = [...order('order-1', START - 60n * SECOND, [10n * MS]), ...order('order-2', START - 30n * SECOND, [MS])];
  const { url } = await served(
    recorded(rows, (writer) => {
      const at = { fromNs: START - 60n * SECOND, toNs: START - 59n * SECOND };
      writer.recordLoss({ cause: 'ring_full', eventType: 'sys_write', count: 7, ...at });
    }),
  );
  const { page } = await newPage();
  await page.goto(url + TRANSACTIONS);
  await page.waitForSelector('text=At least 7 events of A are missing');
  expect((await rowsOf(page, 'Calls of both sides'))[0]).toMatchObject({ 'Count A': '≥ 1', 'Count B': '1' });
  await page.goto(`${url}/#v=1&view=compare&transaction=order-1&other=none`);
  await page.waitForSelector('text=it was never recorded, or retention has removed it');
  expect(await page.isVisible('[aria-label="Calls of both sides"]')).toBe(false);
});

test('two windows: sums are those of /api/stats, and rates where the windows differ in length', async () => {
  const busy = (at: bigint, count: number, duration: bigint): Row[] =>
    Array.from({ length: count }, (_, i) => ({ at: at + BigInt(i) * MS, duration, requested: 1n }));
  const [from, middle] = [START - 20n * SECOND, START - 10n * SECOND];
  const { url, get } = await served(recorded([...busy(from, 10, MS), ...busy(middle, 30, 2n * MS)]));
  const { page } = await newPage();
  const link = (toNs: bigint) =>
    `${url}/#v=1&view=compare&from=${from}&to=${middle}&other_from=${middle}&other_to=${toNs}`;
  await page.goto(link(START));
  await page.waitForSelector('h1:has-text("The calls of B took 50.0 ms longer than those of A")');
  const { stats, coverage } = (await get(`/api/stats?from=${middle}&to=${START}&group_by=syscall`)).json;
  // The recording begins at START, so that nothing says that the windows are whole.
  expect(coverage.complete).toBe(false);
  await page.waitForSelector('text=nobody could count how many, of B are missing');
  const [row] = await rowsOf(page, 'Calls of both sides');
  expect(row).toMatchObject({ Change: '+50.0 ms', 'Count A': '≥ 10', 'Count B': '≥ 30', 'Total B': '60.0 ms' });
  expect(stats[0].duration_ns.sum).toBe(60_000_000);
  await page.goto(link(middle + 5n * SECOND));
  await page.waitForSelector('h1:has-text("took 11.0 ms a second longer")');
  expect((await rowsOf(page, 'Calls of both sides'))[0]).toMatchObject({
    ...{ 'Change a second': '+11.0 ms', 'Count A': '≥ 10, 1/s', 'Count B': '≥ 30, 6/s' },
  });
  const last = page.getByLabel('B to');
  await last.fill('2025-11-20T00:00:00');
  await last.press('Enter');
  await page.waitForSelector('text=must be so that the window begins before it ends');
  await last.fill('2025-11-21T00:00:00');
  await last.press('Enter');
  await page.waitForURL(new RegExp(`other_to=${START}`));
  await page.waitForSelector('h1:has-text("took 50.0 ms longer")');
});

const RUN_MS = 1_000_000;
const incident = incidentOf(
  [0, 1, 2].map((at) => ({ at: START + BigInt(at), duration: MS, file: `/data/${'ab'[at % 2]}`, fd: 5 })),
);
const said = saidOf(
  ...['a', 'b', 'c'].map((name, stream) => {
    const recorded_events = [2, 1, 0][stream];
    return { kind: 'stream', stream, op_class: 'write', path: `/data/${name}`, role: 'w', recorded_events };
  }),
);

/** A report of a run whose first call took so many milliseconds more, and its file. */
function reportOf(name: string, moreMs: number): string {
  const calls: Call[] = [
    { stream: 0, event: 0, target: RUN_MS, held: (1 + moreMs) * RUN_MS },
    { stream: 0, event: 1, target: RUN_MS },
    { stream: 2, how: 'extra', at: 9, target: RUN_MS },
  ];
  const path = join(newFolder(), name);
  writeFileSync(path, stringify(ran(incident, calls, { said }).result));
  return path;
}

test('the second window is chosen by its fields, one after the other', async () => {
  const { url } = await served(recorded(order('order-1', START - 60n * SECOND, [MS])));
  const { page, errors } = await newPage({ timezoneId: 'UTC' });
  await page.goto(`${url}/#v=1&view=compare&from=${START - 120n * SECOND}&to=${START - 60n * SECOND}`);
  await page.click('text=Windows of time');
  await page.getByLabel('B from').fill('2025-11-20T23:59:00');
  await page.getByLabel('B to').fill('2025-11-21T00:00:00');
  await page.waitForURL(new RegExp(`other_from=${START - 60n * SECOND}`));
  await page.getByLabel('B to').press('Enter');
  await page.waitForURL(new RegExp(`other_to=${START}`));
  await page.waitForSelector('h1:has-text("The calls of B took")');
  expect(errors).toEqual([]);
});

test('transactions that may be missing from the list are said', async () => {
  const { url } = await served(
    recorded([{ at: START - 60n * SECOND }], (writer) => {
      const at = { fromNs: START - 60n * SECOND, toNs: START - 59n * SECOND };
      writer.recordLoss({ cause: 'ring_full', eventType: 'sys_write', count: 7, ...at });
    }),
  );
  const { page } = await newPage();
  await page.goto(`${url}/#v=1&view=compare`);
  await page.waitForSelector('text=No transaction is recorded yet. At least 7 events are missing.');
  await page.fill('input[type=search]', 'order');
  await page.waitForSelector('text=No id of a transaction contains order. At least 7 events are missing.');
});

test('reports: a run beside its incident, beside a run, and repeated runs with their band', async () => {
  const { url } = await served(recorded([]));
  const { page, errors, requested } = await newPage();
  await page.goto(`${url}/#v=1&view=compare`);
  await page.click('text=Reports of runs');
  const asked = requested.length;
  const choose = (side: 'A' | 'B', paths: string[]) =>
    page.setInputFiles(`section[aria-label^="${side}:"] input[type=file]`, paths);
  await choose('B', [reportOf('one.json', 2)]);
  await page.waitForSelector('h1:has-text("than those of the incident")');
  expect(await page.textContent('h1')).toBe(
    'The calls of the run of B took 3.00 ms longer than those of the incident: 2.00 ms of it in write /data/a.',
  );
  expect(await rowsOf(page, 'Paths of both sides')).toEqual([
    expect.objectContaining({ Path: '/data/a', Change: '+2.00 ms', 'Total A': '2.00 ms', 'What changed': '▲ longer' }),
    expect.objectContaining({ Path: '/data/c', 'Count A': '0', 'What changed': '▷ only in B' }),
    expect.objectContaining({ Path: '/data/b', 'Total A': '?', 'What changed': '◁ only in A' }),
  ]);
  await choose('A', [reportOf('before.json', 0)]);
  await page.waitForSelector(
    'h1:has-text("took 2.00 ms longer than those of the run of A, all of it in write /data/a")',
  );

  await choose('B', [reportOf('two.json', 0), reportOf('three.json', 0), reportOf('four.json', 4)]);
  await page.waitForSelector('h1:has-text("no difference beyond how runs vary")');
  expect((await rowsOf(page, 'Paths of both sides'))[0]).toMatchObject({
    ...{ Path: '/data/a', Change: '–', 'What changed': '≈ within how runs vary' },
    'Total B': '2.00 ms (2.00 ms to 6.00 ms)',
  });
  await page.click('[aria-label="remove before.json"]');
  await page.waitForSelector('h1:has-text("the incident")');
  expect(errors).toEqual([]);
  expect(requested.slice(asked)).toEqual([]);
});

test('files that are no reports are refused in words, by name, and dropped ones are read', async () => {
  const { url } = await served(recorded([]));
  const { page, errors } = await newPage();
  await page.goto(`${url}/#v=1&view=compare`);
  await page.click('text=Reports of runs');
  const folder = newFolder();
  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  truncateSync(file('huge.json', ''), 65 * 2 ** 20);
  await page.setInputFiles('section[aria-label^="B:"] input[type=file]', [
    file('\u202enosj.txt', '{'),
    file('next.json', '{"kreplay_run": 2}'),
    file('<b>.json', '{"kreplay_run": 1, "figures": null}'),
    join(folder, 'huge.json'),
  ]);
  const alerts = await page
    .waitForSelector('main [role=alert] >> nth=3')
    .then(() => page.$$eval('main [role=alert]', (all) => all.map(({ textContent }) => textContent)));
  expect(alerts).toEqual([
    '\\u{202e}nosj.txt is not a report of kreplay run: give a file that --report has written',
    'next.json is a report of version 2 of kreplay run, not 1',
    '<b>.json is not a report of kreplay run, or is of another version',
    'huge.json has 65 MiB, which is no report of kreplay run: it was not read',
  ]);
  const text = stringify(ran(incident, [], { said, settings: { command: ['<i>', '\u0000'] } }).result);
  await page.evaluate(`(() => {
    const data = new DataTransfer();
    data.items.add(new File([${JSON.stringify(text)}], 'dropped.json'));
    const drop = new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true });
    document.querySelector('section[aria-label^="B:"]').dispatchEvent(drop);
  })()`);
  const dropped = await page.waitForSelector('p:has-text("dropped.json")');
  expect(await dropped.textContent()).toMatch(/^dropped\.json: <i> \\u\{0\}, /);
  expect(errors).toEqual([]);
});

test('axe finds nothing and nothing is cut off: in both themes, with forced colours, and when narrow', async () => {
  const rows = [...order('order-1', START - 60n * SECOND, [MS]), ...order('order-2', START - 30n * SECOND, [9n * MS])];
  const { url } = await served(recorded(rows));
  const { page, errors } = await newPage({ colorScheme: 'light' });
  await page.goto(url + TRANSACTIONS);
  await page.waitForSelector('[aria-label="Calls of both sides"]');
  await expectReadable(page);
  const [from, to] = [START - 70n * SECOND, START - 35n * SECOND];
  await page.goto(`${url}/#v=1&view=compare&from=${from}&to=${to}&other_from=${to}&other_to=${START}`);
  await page.waitForSelector('h1:has-text("The calls of B")');
  await expectReadable(page);
  await page.click('text=Reports of runs');
  await page.setInputFiles('section[aria-label^="B:"] input[type=file]', [reportOf('one.json', 2)]);
  await page.waitForSelector('[aria-label="Paths of both sides"]');
  await expectReadable(page);
  expect(errors).toEqual([]);
});
