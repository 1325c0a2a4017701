/** The page of a daemon on a fleet, beside that of one on the same recordings: it says and draws the same. */
import type { Page } from 'playwright-core';
import { type ClickHouseServer, endServers } from '../clickhouse/server.ts';
import { type Row, recordedOn, recordingPath } from '../daemon/recorded.ts';
import { startFleet } from '../ship/fleet.ts';
import { type RunningDaemon, recordedOnBoth, shipAll, startDaemon, TRACE, WINDOW } from './both_daemons.ts';
import { newPage } from './browser.ts';

let server: ClickHouseServer;
let daemons: { files: RunningDaemon; fleet: RunningDaemon };

beforeAll(async () => {
  server = await startFleet();
  const paths = recordedOnBoth();
  await shipAll(server, paths);
  const [files, fleet] = await Promise.all([
    startDaemon('--recording', ...paths),
    startDaemon('--fleet-url', server.url, '--tail-lag', '2s'),
  ]);
  daemons = { files, fleet };
});
afterAll(async () => {
  await Promise.all([daemons?.files.end(), daemons?.fleet.end()]);
  await endServers();
});

/** Walks both pages the same way, and expects to read the same. */
async function expectSame<Read>(hash: string, walk: (page: Page) => Promise<Read>): Promise<Read> {
  const read = async ({ url }: RunningDaemon) => {
    const { page, errors, requested } = await newPage();
    await page.goto(`${url}/#v=1&${hash}`);
    const found = await walk(page);
    // The address follows what is shown some time later, and that of a replay by the time that passed.
    await page.waitForTimeout(ADDRESS_MS);
    expect(errors).toEqual([]);
    expect(requested.filter((address) => new URL(address).origin !== url)).toEqual([]);
    return { found, hash: new URL(page.url()).hash.replace(/(session|position)=[0-9a-f-]+&?/g, '') };
  };
  const [files, fleet] = await Promise.all([read(daemons.files), read(daemons.fleet)]);
  expect(fleet).toEqual(files);
  return fleet.found;
}

const ADDRESS_MS = 600;
const LANES = `view=lanes&transaction=order-both&${WINDOW}`;
const textOf = async (page: Page, selector: string) => (await page.textContent(selector)) ?? '';
const settled = (page: Page) => page.waitForSelector('main:not([aria-busy="true"])');

/** All rows of the table of events, and its headings. */
const eventRows = (page: Page) =>
  page.$$eval('.rows th, .rows tbody tr[aria-rowindex]', (lines) => lines.map(({ textContent }) => textContent ?? ''));

test('the overview has the same sentence, map, differences, times and slowest transactions', async () => {
  const text = await expectSame(WINDOW, async (page) => {
    await page.waitForSelector('h1:has-text("in the median")');
    await page.waitForSelector('text=Where the time went');
    await settled(page);
    const map = await page.locator('canvas.map').evaluate('(canvas) => canvas.toDataURL()');
    const said = await page.getAttribute('canvas.map', 'aria-label');
    const text = await page.innerText('main');
    await page.keyboard.press('v');
    await page.waitForSelector('.rows tbody td');
    return [text, map, said, ...(await eventRows(page))];
  });
  expect(text[0]).toMatch(/shared device sdb with backup/);
});

test('a transaction over two nodes has the same lanes, clocks and events, with all digits', async () => {
  const [text, ...rows] = await expectSame(`${LANES}&table=1`, async (page) => {
    await page.waitForSelector('.rows tbody tr:nth-child(8)');
    await page.waitForSelector('.projection');
    await settled(page);
    return [await page.innerText('main'), ...(await eventRows(page))];
  });
  expect(text).toMatch(/n1[\s\S]*n2/);
  expect(rows.join('\n')).toMatch(/9 007 199 254 740 993 B/);
});

test('a trace, a choice in the lanes and the way back are the same', async () => {
  await expectSame(WINDOW, async (page) => {
    await page.waitForSelector('h1:has-text("in the median")');
    await page.goto(page.url().replace(/#.*/, `#trace=${TRACE}`));
    await page.waitForURL(/view=lanes&transaction=order-both/);
    await page.waitForSelector('.moving');
    const texts = [await textOf(page, 'h1')];
    await page.keyboard.press('ArrowRight');
    await page.waitForSelector('.detail h2');
    texts.push(await page.innerText('.detail'));
    await page.waitForURL(/event=/);
    await page.reload();
    await page.waitForSelector('.detail h2');
    texts.push(await page.innerText('.detail'));
    await page.goBack();
    await page.waitForSelector('h1:has-text("in the median")');
    return texts;
  });
});

test('what-if answers the same for all choices', async () => {
  await expectSame(LANES, async (page) => {
    await page.waitForSelector('.projection');
    const texts: string[] = [await textOf(page, '.projection')];
    for (const [label, text] of [
      ['Extra latency', '5 ms'],
      ['Deadline', '700 ms'],
    ]) {
      const exactly = page.locator(`input[aria-label="${label}, exactly"]`);
      await exactly.fill(text!);
      const answered = page.waitForResponse((one) => one.url().endsWith('/api/replay/whatif') && one.ok());
      await exactly.press('Enter');
      await answered;
      await page.waitForTimeout(200);
      texts.push(await textOf(page, '.projection'));
    }
    await page.waitForSelector('.projection:has-text("in time")');
    return texts;
  });
});

test('a replay steps through every event once and in order, seeks and ends', async () => {
  await expectSame(LANES, async (page) => {
    await page.waitForSelector('.moving');
    const seen: string[] = [];
    for (let event = 1; event <= 8; event++) {
      await page.keyboard.press('Period');
      await page.waitForSelector(`text=/(paused|finished), event ${event} of 8/`);
      seen.push(await textOf(page, '.figures:not(.projection)'));
    }
    await page.keyboard.press('Home');
    await page.waitForSelector('text=/paused, event 0 of 8/');
    await page.keyboard.press('Space');
    await page.waitForSelector('text=/finished, event 8 of 8/');
    const [, session] = /session=([0-9a-f-]+)/.exec(page.url())!;
    const answer = await fetch(new URL(`/api/replay/sessions/${session}/timeline`, page.url()));
    const { events } = JSON.parse(await answer.text()) as { events: { event_id: string; replay_offset_ns: number }[] };
    expect(new Set(events.map(({ event_id }) => event_id)).size).toBe(8);
    return [...seen, ...events.map(({ event_id, replay_offset_ns }) => `${event_id} ${replay_offset_ns}`)];
  });
});

test('two transactions compare the same', async () => {
  await expectSame('view=compare&transaction=order-both&other=order-7', async (page) => {
    await page.waitForSelector('h1:has-text("than A")');
    await settled(page);
    return page.innerText('main');
  });
});

/** Rows of the newest events: the command and the note of each. */
const newest = (page: Page) =>
  page.$$eval('[aria-label="The newest events"] tbody tr[aria-rowindex]', (rows) =>
    rows.map(({ textContent }) => textContent ?? ''),
  );

async function send(node: string, ...secondsAgo: number[]): Promise<void> {
  const now = BigInt(Date.now()) * 1_000_000n;
  const rows = secondsAgo.map((ago): Row => ({ at: now - BigInt(ago) * 1_000_000_000n, file: `/srv/${ago}-ago` }));
  await shipAll(server, [recordingPath(recordedOn(node, rows))]);
}

test('events that are shipped while the live view is open arrive, and late ones do not make it late', async () => {
  const { page, errors } = await newPage();
  await page.goto(`${daemons.fleet.url}/#v=1&view=live`);
  await page.waitForSelector('text=No node ships now: look at');
  await page.waitForSelector('text=following');
  await send('live-1', 400, 0);
  await page.waitForSelector('td:has-text("/srv/0-ago")');
  await page.waitForSelector('td:has-text("/srv/400-ago")');
  await send('live-2', 300);
  await page.waitForSelector('tr:has-text("/srv/300-ago") >> text=late');
  expect(await page.locator('.behind').count()).toBe(0);
  expect((await newest(page)).filter((text) => text.includes('-ago'))).toHaveLength(3);
  expect(errors).toEqual([]);
});

/** Says that a node was heard so long ago, and had sent until then what it recorded. */
async function say(recording: number, node: string, secondsAgo: number): Promise<void> {
  const at = BigInt(Date.now() - secondsAgo * 1000) * 1_000_000n;
  await server.sql(
    `INSERT INTO kreplay.node (recording, at, node, created_ns, alive_ns, watermark_ns) VALUES (${recording}, ${at}, '${node}', 1, ${at}, ${at})`,
  );
}

test('health says which nodes ship, which are silent, and what did not arrive', async () => {
  await say(1, 'heard', 0);
  await say(2, 'silent', 600);
  await server.sql(`INSERT INTO kreplay.loss (recording, loss_id, node, cause, event_type, count, from_ns, to_ns)
    VALUES (2, ${2n ** 63n}, 'silent', 'unshipped', '', 4711, 1763683200000000000, 1763683201000000000)`);
  const { page, errors } = await newPage();
  await page.goto(`${daemons.fleet.url}/#v=1&view=health`);
  await page.waitForSelector(
    'h1:has-text("1 node ships now, 1 node is silent, 4 nodes have ended; at least 4 735 events lost")',
  );
  const nodes = await page.$$eval('section:has(h2:text("Nodes")) tbody th', (cells) => cells.map((c) => c.textContent));
  expect([...nodes].sort()).toEqual(['heard', 'live-1', 'live-2', 'n1', 'n2', 'silent']);
  expect(await page.locator('h2:has-text("Recordings")').count()).toBe(0);
  const gaps = await page.innerText('section:has(h2:text("What is missing"))');
  expect(gaps).toMatch(/4 711\s+silent\s+the byte limit of its node removed it.*raise --retain-bytes/);
  expect(gaps).toMatch(/not counted\s+silent\s+the node has not shipped yet/);
  expect(errors).toEqual([]);
});
