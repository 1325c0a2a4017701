/** `kreplay import`: whole recordings, each once, whatever state they come in. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { openReader } from '../../agent/recording/reader.ts';
import { importRecording } from '../../daemon/export/imported.ts';
import { type Ended, kreplay } from '../daemon/command_line.ts';
import {
  appendRows,
  NODE,
  newFolder,
  newWriter,
  type Row,
  recorded,
  recordingPath,
  START,
} from '../daemon/recorded.ts';
import { AS_NOBODY, NOBODY } from '../unprivileged.ts';
import { readWith, recordedEvents } from './exported.ts';
import { newSmallDisk } from './small_disk.ts';

const ROWS: readonly Row[] = Array.from(
  { length: 1500 },
  (_, i): Row => ({ at: START + BigInt(i), transaction: `order-${i % 7}`, file: `/srv/${i % 100}` }),
);

const imports = (data: string) => readdirSync(join(data, 'imported')).sort();

/** What a killed host leaves: the newest events stand in the log only. */
function unfinished(): { folder: string; path: string } {
  const live = newFolder();
  const writer = newWriter(live);
  appendRows(writer, ROWS, 100);
  const folder = newFolder();
  for (const end of ['', '-wal']) copyFileSync(recordingPath(live) + end, recordingPath(folder) + end);
  writer.close();
  return { folder, path: recordingPath(folder) };
}

test('a recording is copied whole, and the folder is made for it', async () => {
  const source = recorded(ROWS);
  const data = join(newFolder(), 'not', 'there');
  const { code, stdout, stderr } = await kreplay('import', recordingPath(source), '--data', data);
  const [name, ...others] = imports(data);
  const { recordingId } = openReader(recordingPath(source)).info();
  expect([code, others, stderr]).toEqual([0, [], '']);
  expect(name).toMatch(new RegExp(`^${recordingId}-[0-9a-f]{12}\\.kreplay$`));
  const path = join(data, 'imported', name!);
  expect(stdout).toBe(
    `kreplay import: ${recordingPath(source)} imported as ${path}: ${ROWS.length} events of ${NODE}\n`,
  );
  expect(recordedEvents(path)).toEqual(recordedEvents(source));
});

test('importing it again changes nothing', async () => {
  const source = recordingPath(recorded(ROWS));
  const data = newFolder();
  importRecording(source, data);
  const before = imports(data).map((name) => readFileSync(join(data, 'imported', name)));
  const { code, stdout } = await kreplay('import', source, '--data', data);
  expect([code, stdout]).toEqual([0, expect.stringContaining(' is there already, as ')]);
  expect(imports(data).map((name) => readFileSync(join(data, 'imported', name)))).toEqual(before);
  expect(before).toHaveLength(1);
});

test('several at once, then a list of them', async () => {
  const sources = [recorded([{ at: START }]), recorded([{ at: START + 1n }, { at: START + 2n }])].map(recordingPath);
  const data = newFolder();
  expect((await kreplay('import', ...sources, '--data', data)).stdout.split('\n')).toHaveLength(3);
  const { code, stdout } = await kreplay('import', '--list', '--data', data);
  const [heading, ...lines] = stdout.replace(/ +/g, ' ').split('\n');
  expect([code, heading]).toEqual([0, 'NODE EVENTS FIRST LAST FILE']);
  expect(
    lines
      .slice(0, -1)
      .map((line) => line.split(' ').slice(0, 4).join(' '))
      .sort(),
  ).toEqual([
    `${NODE} 1 2025-11-21T00:00:00.000000000Z 2025-11-21T00:00:00.000000000Z`,
    `${NODE} 2 2025-11-21T00:00:00.000000001Z 2025-11-21T00:00:00.000000002Z`,
  ]);
  expect((await kreplay('import', '--list', '--data', newFolder())).stdout).toMatch(/^NODE .*\n$/);
});

test('what stands only in the log of a killed host comes along, and the source stays as it was', () => {
  const { folder, path } = unfinished();
  const before = ['', '-wal'].map((end) => readFileSync(path + end));
  const data = newFolder();
  expect(importRecording(path, data).info.eventCount).toBe(ROWS.length);
  expect(imports(data)).toHaveLength(1);
  expect(['', '-wal'].map((end) => readFileSync(path + end))).toEqual(before);
  expect(readdirSync(folder).filter((name) => !name.endsWith('-shm'))).toHaveLength(2);
});

test('a recording is imported while an agent writes it, and again when there is more', () => {
  const live = newFolder();
  const writer = newWriter(live);
  appendRows(writer, ROWS.slice(0, 700), 50);
  const data = newFolder();
  expect(importRecording(recordingPath(live), data).info.eventCount).toBe(700);
  appendRows(writer, ROWS.slice(700));
  expect(importRecording(recordingPath(live), data).info.eventCount).toBe(ROWS.length);
  writer.close();
  expect(imports(data)).toHaveLength(2);
});

/** As a user who may write only to `data`. */
async function asNobody(data: string, ...args: string[]): Promise<Ended> {
  chownSync(data, NOBODY, NOBODY);
  const [command, ...front] = AS_NOBODY;
  const entry = resolve(import.meta.dirname, '../../kreplay.ts');
  const child = spawn(command, [...front, process.execPath, entry, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const [code] = await once(child, 'close');
  return { code, stdout, stderr };
}

test('a user without rights imports from a folder that is not theirs, log included', async () => {
  const { folder, path } = unfinished();
  for (const end of ['', '-wal']) chmodSync(path + end, 0o644);
  chmodSync(folder, 0o755);
  const data = newFolder();
  const { code, stderr, stdout } = await asNobody(data, 'import', path, '--data', data);
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toContain(`${ROWS.length} events of ${NODE}`);
  expect(imports(data)).toHaveLength(1);
  expect(readdirSync(folder).sort()).toEqual(['recording.kreplay', 'recording.kreplay-wal']);
});

describe('what can not be imported is told, and leaves nothing', () => {
  async function refused(file: string, data = newFolder()): Promise<string> {
    const { code, stdout, stderr } = await kreplay('import', file, '--data', data);
    expect([code, stdout, existsSync(join(data, 'imported')) ? imports(data) : []]).toEqual([1, '', []]);
    expect(stderr).toMatch(/^kreplay: .+\n$/);
    return stderr;
  }

  test('no file, a folder, another file, another database', async () => {
    const place = newFolder();
    expect(await refused(join(place, 'none'))).toContain('there is no recording at');
    await refused(place);
    writeFileSync(join(place, 'text'), 'x'.repeat(5000));
    expect(await refused(join(place, 'text'))).toContain('not a kreplay recording');
    readWith('sqlite3', [join(place, 'other.db'), 'CREATE TABLE t (x)']);
    expect(await refused(join(place, 'other.db'))).toContain('is not a kreplay recording');
  });

  test('a version from another time', async () => {
    const path = recordingPath(recorded([{ at: START }]));
    readWith('sqlite3', [path, 'PRAGMA user_version = 999']);
    expect(await refused(path)).toContain('format version 999');
  });

  test('one that was cut off', async () => {
    const path = recordingPath(recorded(ROWS));
    truncateSync(path, readFileSync(path).length / 2);
    await refused(path);
  });

  test('one whose events do not decode', async () => {
    const path = recordingPath(recorded(ROWS));
    readWith('sqlite3', [path, 'UPDATE segment SET data = zeroblob(length(data))']);
    expect(await refused(path)).toContain(`${path} was not imported: the recording is damaged`);
  });

  test('no space for it', async () => {
    const path = recordingPath(recorded(ROWS));
    const disk = newSmallDisk(16);
    mkdirSync(join(disk, 'data'));
    expect(await refused(path, join(disk, 'data'))).toContain('no space is left on the device');
  });

  test('nothing to do is wrong usage', () => {
    const run = (...args: string[]) =>
      spawnSync(process.execPath, ['kreplay.ts', 'import', ...args], { encoding: 'utf8' });
    for (const { status, stderr } of [run(), run('--list', 'file')])
      expect([status, stderr]).toEqual([2, 'error: give recordings to import, or --list\n']);
  });
});
