/** Tests `kreplay export` as users and pipelines run it. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { start } from '../command_line.ts';
import { hosted } from '../hosted.ts';
import { appendRows, newFolder, newWriter, type Row, recorded, recordingPath, START } from '../recorded.ts';
import { appearing, changeWith, exported, INCIDENT, readWith } from './exported.ts';
import { newSmallDisk } from './small_disk.ts';

const ENTRY = join(import.meta.dirname, '../../../kreplay.ts');

let folder: string;
beforeAll(() => {
  folder = recorded(INCIDENT, (writer) => {
    writer.recordLoss({ cause: 'ring_full', eventType: null, count: 3, fromNs: START + 2000n, toNs: START + 2100n });
    writer.recordLoss({ cause: 'no_memory', eventType: null, count: 4, fromNs: START + 8000n, toNs: START + 8100n });
  });
});

/** So many that an export takes a while. */
function manyRows(count: number): Row[] {
  return Array.from({ length: count }, (_, i) => ({ at: START + BigInt(i), file: `/srv/file-${(i * 7919) % 1000}` }));
}

const exportOf = (data: string, ...args: string[]) => hosted('export', '--data', data, ...args);
const fromFolder = (...args: string[]) => exportOf(folder, ...args);

test('a stream goes to stdout, and messages about it to stderr', async () => {
  const { code, stdout, stderr } = await fromFolder('--format', 'csv', '--transaction', 'order-1', '--context', '1us');
  expect([code, stdout.split('\r\n').length]).toEqual([0, 6]);
  expect(stderr).toBe(
    `kreplay export: 4 events, ${Buffer.byteLength(stdout)} bytes; the recording is missing 3 events in this window\n`,
  );
  const json = await fromFolder('--format', 'ndjson', '--from', '0', '--summary', 'json');
  expect(JSON.parse(json.stderr)).toEqual({
    ...{ format: 'ndjson', output: '-', redacted: false },
    ...{ events: 5, bytes: Buffer.byteLength(json.stdout), lost: 7, gaps: 2 },
  });
});

test('a gap of unknown size is reported too', async () => {
  const data = recorded(INCIDENT);
  // A writer records such a gap for the time without an agent.
  const gap = `INSERT INTO loss (from_ns, to_ns, cause, count) VALUES (${START}, ${START + 1n}, 'agent_killed', 0)`;
  changeWith(recordingPath(data), gap);
  const { path } = await exported(data, 'bundle');
  const { stderr } = await hosted('export', '--recording', path, '--format', 'csv', '--from', '0');
  expect(stderr).toMatch(/; the recording is missing an unknown number of events in this window\n$/);
});

test('a file is complete when it appears, and never replaced without --force', async () => {
  const output = join(newFolder(), 'events.csv');
  const write = (...args: string[]) => fromFolder('--format', 'csv', '--from', '0', '--output', output, ...args);
  const { code, stdout } = await write();
  expect([code, stdout]).toEqual([
    0,
    `kreplay export: 5 events, ${readFileSync(output).length} bytes to ${output}; ` +
      'the recording is missing 7 events in this window\n',
  ]);
  writeFileSync(output, 'mine');
  const again = await write();
  expect([again.code, again.stderr]).toEqual([
    1,
    `kreplay: ${output} exists: give another --output, or --force to replace it\n`,
  ]);
  expect(readFileSync(output, 'utf8')).toBe('mine');
  expect((await write('--force')).code).toBe(0);
  expect(readFileSync(output, 'utf8')).toMatch(/^event_id,/);
  expect(readdirSync(join(output, '..'))).toEqual(['events.csv']);
});

test('only a regular file is replaced, and a link is not followed', async () => {
  const place = newFolder();
  mkdirSync(join(place, 'folder'));
  const refused = await fromFolder('--format', 'csv', '--from', '0', '--output', join(place, 'folder'), '--force');
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('is not a file: give another --output')]);
  writeFileSync(join(place, 'target'), 'mine');
  symlinkSync('target', join(place, 'link'));
  expect((await fromFolder('--format', 'csv', '--from', '0', '--output', join(place, 'link'), '--force')).code).toBe(0);
  expect(readFileSync(join(place, 'target'), 'utf8')).toBe('mine');
});

test.each([
  [['--transaction', 'order-1', '--service', 'nobody'], / has no such events: nothing was exported\n$/],
  [['--transaction', 'order-3'], / has no transaction order-3: check the id, or name its --recording\n$/],
  [['--from', '0', '--output', '/nowhere/at/all.csv'], /^kreplay: \/nowhere\/at\/all\.csv: its folder does not exist/],
])('%j is an error in one line, and leaves no file', async (args, message) => {
  const place = newFolder();
  const output = args.includes('--output') ? [] : ['--output', join(place, 'events.csv')];
  const { code, stdout, stderr } = await fromFolder('--format', 'csv', ...args, ...output);
  expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(message)]);
  expect(readdirSync(place)).toEqual([]);
});

test('incompatible options are a usage error', async () => {
  const wrong = [
    [],
    ['--transaction', 'order-1', '--from', '0'],
    ['--from', '0', '--context', '1s'],
    ['--from', 'yesterday'],
    ['--from', '0', '--type', 'sys_read'],
    ['--from', '0', '--format', 'sqlite', '--output', '-'],
    ['--from', '0', '--recording', 'a', '--recording', 'b'],
  ];
  const ended = await Promise.all(wrong.map((args) => fromFolder(...args)));
  for (const { code, stdout, stderr } of ended)
    expect([code, stdout, stderr]).toEqual([2, '', expect.stringMatching(/^error: .+\nSee kreplay export --help\n$/)]);
});

test('a file that is not a recording, and a missing one', async () => {
  const place = newFolder();
  writeFileSync(join(place, 'text'), 'x'.repeat(5000));
  const other = await hosted('export', '--recording', join(place, 'text'), '--from', '0');
  expect([other.code, other.stderr]).toEqual([1, expect.stringContaining('not a kreplay recording')]);
  const none = await hosted('export', '--data', place, '--from', '0');
  expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('start the agent, it creates it')]);
  // An agent would not create a file that was named explicitly.
  const file = join(place, 'none');
  const missing = await hosted('export', '--recording', file, '--from', '0');
  expect(missing.stderr).toBe(`kreplay: there is no file ${file}: give the path of a recording\n`);
  const folder = await hosted('export', '--data', file, '--from', '0');
  expect(folder.stderr).toContain(`there is no folder ${file}: start the agent with that --data, or give the folder`);
});

test('a recording is read while it is written', async () => {
  const data = newFolder();
  const writer = newWriter(data);
  appendRows(writer, manyRows(3000), 700);
  const { code, stdout } = await exportOf(data, '--format', 'ndjson', '--from', '0');
  expect([code, stdout.split('\n').length - 1]).toEqual([0, 3000]);
  writer.close();
});

describe('a long export', () => {
  const MANY = 120_000;
  const FULL = /^kreplay: .*events: no space is left on the device: free some, or write elsewhere \(.+\)\n$/;
  let data: string;
  beforeAll(() => {
    data = recorded(manyRows(MANY));
  });

  test.each(['bundle', 'csv'])('kill -9 leaves no incomplete %s', async (format) => {
    const place = newFolder();
    const output = join(place, 'events');
    const args = ['export', '--data', data, '--format', format, '--from', '0', '--output', output];
    const begun = appearing(place);
    const { child, ended } = start(...args);
    await begun;
    child.kill('SIGKILL');
    await ended;
    expect(existsSync(output)).toBe(false);
    expect(readdirSync(place)).not.toEqual([]);
    // The next export removes what this one left.
    await hosted(...args);
    expect(readdirSync(place)).toEqual(['events']);
  });

  test.each(['SIGINT', 'SIGTERM'] as const)('%s removes what was written', async (signal) => {
    const place = newFolder();
    const output = join(place, 'events');
    const begun = appearing(place);
    const { child, ended } = start('export', '--data', data, '--format', 'csv', '--from', '0', '--output', output);
    await begun;
    child.kill(signal);
    const { code, stderr } = await ended;
    expect([code, stderr]).toEqual([1, 'kreplay: interrupted\n']);
    expect(readdirSync(place)).toEqual([]);
  });

  test.each([
    ['bundle', 48],
    ['ndjson', 512],
    ['sqlite', 512],
  ] as const)('a full disk is reported, and nothing of the %s remains', async (format, size_kib) => {
    const disk = newSmallDisk(size_kib);
    const output = join(disk, 'events');
    const { code, stdout, stderr } = await exportOf(data, '--format', format, '--from', '0', '--output', output);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(FULL);
    expect(readdirSync(disk)).toEqual([]);
  });

  test('a reader that stops early is not a failure', async () => {
    const { child, printed, ended } = start('export', '--data', data, '--format', 'ndjson', '--from', '0');
    await printed(/event_id/);
    child.stdout!.destroy();
    expect(await ended).toMatchObject({ code: 0, stderr: '' });
  });

  test.each(['SIGINT', 'SIGTERM'] as const)('%s ends the export while its output is not read', async (signal) => {
    const child = spawn(process.execPath, [ENTRY, 'export', '--data', data, '--format', 'ndjson', '--from', '0']);
    const told = child.stderr.toArray();
    await once(child.stdout, 'readable');
    child.kill(signal);
    const [code] = await once(child, 'exit');
    expect([code, (await told).join('')]).toEqual([1, 'kreplay: interrupted\n']);
    child.stdout.destroy();
  });

  const CLEAR_LINE = '\r\u001b[K';

  test('a terminal shows the progress, and then one line', async () => {
    const words = ['export', '--data', data, '--format', 'ndjson', '--from', '0'];
    const command = [process.execPath, ENTRY, ...words].map((word) => `'${word}'`).join(' ');
    // A slow reader: an export that is done soon shows no progress line.
    const slowly = `${command} | (sleep 2; cat >/dev/null)`;
    const child = spawn('script', ['-qec', slowly, '/dev/null'], { stdio: ['ignore', 'pipe', 'inherit'] });
    let shown = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      shown += text;
    });
    await once(child, 'close');
    const [, ...lines] = shown.split(CLEAR_LINE);
    expect(lines.length).toBeGreaterThan(1);
    expect(lines[0]).toMatch(/^\d+ events, \d+\.\d MB$/);
    expect(lines.at(-1)).toMatch(new RegExp(`^kreplay export: ${MANY} events, \\d+ bytes\r\n$`));
  });

  test('memory does not grow with the size of the export', async () => {
    const peak_mib = (to: bigint) => {
      const measured = `process.on('exit', () => console.error(process.resourceUsage().maxRSS));`;
      const preload = `data:text/javascript,${encodeURIComponent(measured)}`;
      // V8's space for young objects alone grows by up to 48 MiB, at times that depend on the machine's load.
      const args = [
        '--max-semi-space-size=1',
        '--import',
        preload,
        ENTRY,
        'export',
        '--data',
        data,
        '--format',
        'ndjson',
        '--to',
        `${to}`,
      ];
      const shell = [process.execPath, ...args].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
      return (
        Number(
          readWith('sh', ['-c', `${shell} 2>&1 >/dev/null`])
            .trim()
            .split('\n')
            .at(-1),
        ) / 1024
      );
    };
    expect(peak_mib(START + BigInt(MANY))).toBeLessThan(peak_mib(START + 10_000n) + 40);
  });
});

test.each([
  [['export', '--from', '0', '--format', 'csv']],
  [['export', '--from', '0', '--format', 'perfetto', '--output', '-']],
  [['sql', 'select * from events']],
])('%j to a full disk is one line', ([command, ...args]) => {
  const full = openSync('/dev/full', 'w');
  const run = [ENTRY, command!, '--data', folder, ...args];
  const { status, stderr } = spawnSync(process.execPath, run, { stdio: ['ignore', full, 'pipe'], encoding: 'utf8' });
  closeSync(full);
  expect([status, stderr]).toEqual([1, expect.stringMatching(/^kreplay: standard output: ENOSPC.*\n$/)]);
});

test('a binary trace is not written to a terminal', async () => {
  const command = `'${process.execPath}' '${ENTRY}' export --data '${folder}' --format perfetto --from 0 --output -`;
  const child = spawn('script', ['-qec', command, '/dev/null'], { stdio: ['ignore', 'pipe', 'inherit'] });
  child.stdout.setEncoding('utf8');
  const [text] = await once(child.stdout, 'data');
  expect(text).toContain('not for a terminal: give --output a path, or a pipe');
  const piped = await fromFolder('--format', 'perfetto', '--from', '0', '--output', '-');
  expect([piped.code, piped.stdout.length > 1000]).toEqual([0, true]);
});

test('the recording itself is unchanged', async () => {
  const before = readFileSync(recordingPath(folder));
  await fromFolder('--format', 'ndjson', '--from', '0');
  expect(readFileSync(recordingPath(folder))).toEqual(before);
});
