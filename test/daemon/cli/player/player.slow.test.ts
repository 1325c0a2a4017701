/** Tests the player in a real terminal, against a daemon on a real socket that serves a real recording. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Row, recorded, START } from '../../recorded.ts';
import { type Served, serve } from '../../served.ts';
import { openPane, type Pane } from './tmux.ts';

const KREPLAY = join(import.meta.dirname, '../../../../kreplay.ts');
const MS = 1_000_000n;

const ROWS: Row[] = Array.from({ length: 23 }, (_, n) => ({
  at: START + BigInt(n) * 100n * MS,
  duration: n === 7 ? 600n * MS : 40n * MS,
  transaction: 'order-1',
  service: n % 2 ? 'shop' : 'db',
  tid: 100 + (n % 2),
  comm: n % 2 ? '\u001b[2Japp' : 'postgres',
  file: `/data/${n}.db`,
  ...(n === 5 && { result: -28n }),
}));

let served: Served;
beforeAll(async () => {
  served = await serve(recorded(ROWS));
});
afterAll(() => served.close());

const panes: Pane[] = [];
afterEach(async () => {
  await Promise.all(panes.splice(0).map((pane) => pane.close()));
  await noSessions();
});

async function sessions() {
  return (await served.get('/api/replay/sessions')).json.sessions;
}

/** Waits for the sessions to end: a terminal that hangs up does not wait for the processes in it. */
async function noSessions(): Promise<void> {
  while ((await sessions()).length > 0) await delay(20);
}

/** So slow that it stays at the first events until a key changes that. */
const SLOW = '--speed 0.001';

async function play(options = SLOW, environment: Record<string, string> = {}): Promise<Pane> {
  const pane = await openPane(environment);
  panes.push(pane);
  await startIn(pane, options);
  return pane;
}

function startIn(pane: Pane, options: string): Promise<void> {
  const command = `${process.execPath} ${KREPLAY} replay order-1 --url ${served.url} ${options}`;
  return pane.type(`${command}; echo "exit code $?"`);
}

async function expectUsable(pane: Pane): Promise<void> {
  expect(await pane.value('alternate_on')).toBe('0');
  expect(await pane.value('cursor_flag')).toBe('1');
  expect(await pane.value('wrap_flag')).toBe('1');
  await pane.type('stty -a | grep -o "[-]*icanon\\|[-]*echo " | tr "\\n" "."');
  await pane.shows(/icanon\.echo \./);
}

test('plays, pauses, steps, seeks, changes speed, ends, and restores the terminal', async () => {
  const pane = await play();
  await pane.shows(/▶ playing {2}speed 0\.001 {2}event 1\/23/);
  await pane.press('Space');
  await pane.shows(/‖ paused/);
  await pane.press('Home');
  await pane.shows(/event 0\/23/);
  await pane.press('Right', 'Right', 'Right');
  const screen = await pane.shows(/event 3\/23/);
  expect(screen).toMatch(/^order-1 {2}services db, shop {2}nodes test-node\n/);
  expect(screen).toMatch(/\n100 postgres test-node +\S+ +█.*░/);
  expect(screen).toMatch(/\n101 \\u\{1b\}\[2Japp/);
  expect(screen).toMatch(/ 200\.000ms of 2\.240s\n/);
  expect(screen).toMatch(/recorded 2025-11-21T00:00:00\.200000000Z/);
  expect(screen.match(/write \/data\/\d+\.db/g)).toEqual(['write /data/0.db', 'write /data/1.db', 'write /data/2.db']);
  await pane.press('Left');
  expect(await pane.shows(/event 2\/23/)).not.toContain('/data/2.db');
  await pane.press('+', '+', '-');
  await pane.shows(/speed 0\.002/);
  await pane.press('S-Right');
  expect(await pane.shows(/event 12\/23/)).toMatch(/\/data\/5\.db +- {2}ENOSPC/);
  await pane.press('PageUp');
  await pane.shows(/event 9\/23/);
  await pane.press('End');
  await pane.shows(/■ finished .*event 23\/23/);
  await pane.press('Left');
  await pane.shows(/‖ paused .*event 22\/23/);
  await pane.press('?');
  await pane.shows(/space pause\/play .*q quit/s);
  await pane.press('q');
  await pane.shows(/stopped after 22 of 23 events; .*exit code 0/s);
  await expectUsable(pane);
});

test('l and L change the extra latency: future events move, and the replay takes longer', async () => {
  const pane = await play('--speed 0.001 --extra-latency 60ms');
  await toStart(pane);
  await pane.press('Right', 'Right', 'Right');
  const before = await pane.shows(reaching('2.960s', 'event 3/23  latency \\+60.000ms'));
  await pane.press('l');
  // Two of the thread's twelve events have been played.
  const after = await pane.shows(reaching('3.360s', 'event 3/23  latency \\+100.000ms'));
  expect(laneIn(after)).not.toBe(laneIn(before));
  expect(/ (\S+) of /.exec(after)![1]).toBe(/ (\S+) of /.exec(before)![1]);
  await pane.press('L', 'L');
  await pane.shows(reaching('2.560s', 'latency \\+20.000ms'));
  const [{ session_id }] = await sessions();
  await served.get(`/api/replay/sessions/${session_id}`, {
    method: 'PATCH',
    headers: { 'content-type': 'application/json' },
    body: '{"extra_latency_ns": 100000000}',
  });
  expect(laneIn(await pane.shows(reaching('3.360s', 'latency \\+100.000ms')))).toBe(laneIn(after));
  // A seek applies the latency to all events, as if it had been set from the start.
  await pane.press('Home');
  const anew = await pane.shows(reaching('3.440s', 'event 0/23'));
  const fresh = await play('--speed 0.001 --extra-latency 100ms');
  await toStart(fresh);
  expect(laneIn(await fresh.shows(reaching('3.440s', 'event 0/23')))).toBe(laneIn(anew));
});

async function toStart(pane: Pane): Promise<void> {
  await pane.shows(/playing .*event 1\/23/);
  await pane.press('Space');
  await pane.shows(/paused/);
  await pane.press('Home');
  await pane.shows(/event 0\/23/);
}

/** A replay of this length, with the lane of its last event drawn to the very end of 100 columns. */
function reaching(duration: string, status: string): RegExp {
  return new RegExp(`${status}.*\\n100 .{95}░\\n.* of ${duration}\\n`, 's');
}

/** Lane of the thread with the most events. */
const laneIn = (screen: string) => /^100 .*$/m.exec(screen)![0];

test('a finished replay plays again with its events', async () => {
  const pane = await play('--speed 1000');
  await pane.shows(/finished .*event 23\/23/);
  await pane.press('-', '-', '-', '-');
  await pane.shows(/speed 62\.5/);
  await pane.press('Home');
  await pane.shows(/paused .*event 0\/23/);
  await pane.press('Space');
  await pane.shows(/finished .*speed 62\.5 .*event 23\/23.*\/data\/22\.db/s);
  await pane.press('q');
  await pane.shows(/finished after 23 of 23 events.*exit code 0/s);
});

test('pauses immediately after what --break and --until-event name, and continues from there', async () => {
  const pane = await play("--speed 10 --break 'duration_ms>50' --until-event 2");
  expect(await pane.shows(/paused after event 2: --until-event/)).toMatch(/‖ paused .*event 3\/23/);
  await pane.press('Space');
  const screen = await pane.shows(/paused after event 7: duration_ms>50/);
  expect(screen).toMatch(/‖ paused .*event 8\/23/);
  expect(screen).toContain('/data/7.db');
  expect(screen).not.toContain('/data/8.db');
  await pane.press('Space');
  await pane.shows(/finished/);
  await pane.press('q');
  await pane.shows(/exit code 0/);
});

test('follows the size of the terminal', async () => {
  const pane = await play();
  await pane.shows(/playing .*event 1\/23/);
  for (const [columns, rows] of [
    [50, 12],
    [20, 4],
    [130, 30],
  ] as const) {
    await pane.resize(columns, rows);
    const bar = columns < 30 ? '\\S+ms of' : `[█░]{${columns - 21},}`;
    const lines = (await pane.shows(new RegExp(`(?=.*playing)(?=.*(^|\\n)${bar})(?=.*\\? keys)`, 's'))).split('\n');
    expect(lines.length - 1).toBe(rows);
  }
  await pane.press('q');
  await pane.shows(/exit code 0/);
});

test('colours and plain characters depend on the settings and the terminal', async () => {
  const colourful = await play();
  await colourful.shows(/event 1\/23/);
  expect(await colourful.screen(true)).toContain('\u001b[32m');
  const plain = await play(SLOW, { NO_COLOR: '1', LC_ALL: 'C' });
  const screen = await plain.shows(/> playing .*event 1\/23/);
  expect(screen).toMatch(/\n=*-+ \S+ of 2\.240s\n/);
  expect(await plain.screen(true)).not.toContain('\u001b[');
});

test('Ctrl-C ends the player', async () => {
  const pane = await play();
  await pane.shows(/event 1\/23/);
  await pane.press('C-c');
  await pane.shows(/stopped after 1 of 23 events.*exit code 1/s);
  await expectUsable(pane);
  await noSessions();
});

/** Pid of the terminal's foreground process, which is not the shell. */
async function processIn(pane: Pane): Promise<number> {
  return Number(execFileSync('pgrep', ['-P', await pane.value('pane_pid')], { encoding: 'utf8' }));
}

test.each(['SIGTERM', 'SIGHUP'])('%s ends the player and restores the terminal', async (signal) => {
  const pane = await play();
  await pane.shows(/event 1\/23/);
  process.kill(await processIn(pane), signal);
  await pane.shows(/stopped after 1 of 23 events.*exit code 1/s);
  await expectUsable(pane);
  await noSessions();
});

test('a crash restores the terminal and prints its message', async () => {
  // Blanks and double quotes would end the option's value.
  const bomb = `data:text/javascript,process.on('SIGUSR2',()=>{throw(Error('boom'))})`;
  const pane = await play(SLOW, { NODE_OPTIONS: `--import=${bomb}` });
  await pane.shows(/event 1\/23/);
  process.kill(await processIn(pane), 'SIGUSR2');
  await pane.shows(/Error: boom.*exit code \d/s);
  await expectUsable(pane);
  const [{ session_id }] = await sessions();
  await served.get(`/api/replay/sessions/${session_id}`, { method: 'DELETE' });
});

test('a terminal that hangs up leaves no session behind', async () => {
  const pane = await play();
  await pane.shows(/event 1\/23/);
  await pane.close();
  await noSessions();
});

test('a session that another client pauses or deletes is shown as such', async () => {
  const pane = await play();
  await pane.shows(/playing .*event 1\/23/);
  const path = `/api/replay/sessions/${(await sessions())[0].session_id}`;
  await served.get(`${path}/pause`, { method: 'POST' });
  await pane.shows(/paused/);
  await served.get(path, { method: 'DELETE' });
  await pane.shows(/kreplay: the session was deleted by another client\s.*exit code 4/s);
  await expectUsable(pane);
});

test('a dumb terminal gets lines', async () => {
  const pane = await openPane();
  panes.push(pane);
  await pane.type('export TERM=dumb');
  await startIn(pane, '--speed 10');
  await pane.shows(/\/data\/22\.db.*finished after 23 of 23.*exit code 0/s);
});
