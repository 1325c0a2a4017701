/** Tests `kreplay import`: complete recordings, each only once, in any state. */
import { spawn } from 'node:child_process';
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
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { importRecording } from '../../../../daemon/export/incident/imported.ts';
import { AS_NOBODY, NOBODY } from '../../../unprivileged.ts';
import { type Ended, kreplay, start } from '../../command_line.ts';
import { hosted } from '../../hosted.ts';
import { appendRows, NODE, newFolder, newWriter, type Row, recorded, recordingPath, START } from '../../recorded.ts';
import { appearing, changeWith, readWith, recordedEvents } from '../exported.ts';
import { newSmallDisk } from '../small_disk.ts';

const ROWS: readonly Row[] = Array.from(
  { length: 1500 },
  (_, i): Row => ({ at: START + BigInt(i), transaction: `order-${i % 7}`, file: `/srv/${i % 100}` }),
);

const imports = (data: string) => readdirSync(join(data, 'imported')).sort();

/** Files as a killed host leaves them: the newest events are only in the log. */
function unfinished(): { folder: string; path: string } {
  const live = newFolder();
  const writer = newWriter(live);
  appendRows(writer, ROWS, 100);
  const folder = newFolder();
  for (const end of ['', '-wal']) copyFileSync(recordingPath(live) + end, recordingPath(folder) + end);
  writer.close();
  return { folder, path: recordingPath(folder) };
}

test('a recording is copied completely, and the folder is created for it', async () => {
  const source = recorded(ROWS);
  const data = join(newFolder(), 'not', 'there');
  const { code, stdout, stderr } = await hosted('import', recordingPath(source), '--data', data);
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
  const { code, stdout } = await hosted('import', source, '--data', data);
  expect([code, stdout]).toEqual([0, expect.stringContaining(' is there already, as ')]);
  expect(imports(data).map((name) => readFileSync(join(data, 'imported', name)))).toEqual(before);
  expect(before).toHaveLength(1);
});

test('several imports at once, then a list of them', async () => {
  const sources = [recorded([{ at: START }]), recorded([{ at: START + 1n }, { at: START + 2n }])].map(recordingPath);
  const data = newFolder();
  expect((await hosted('import', ...sources, '--data', data)).stdout.split('\n')).toHaveLength(3);
  const { code, stdout } = await hosted('import', '--list', '--data', data);
  const [heading, ...lines] = stdout.replace(/ +/g, ' ').split('\n');
  expect([code, heading]).toEqual([0, 'NODE EVENTS FIRST LAST FILE ERROR']);
  expect(
    lines
      .slice(0, -1)
      .map((line) => line.split(' ').slice(0, 4).join(' '))
      .sort(),
  ).toEqual([
    `${NODE} 1 2025-11-21T00:00:00.000000000Z 2025-11-21T00:00:00.000000000Z`,
    `${NODE} 2 2025-11-21T00:00:00.000000001Z 2025-11-21T00:00:00.000000002Z`,
  ]);
  expect((await hosted('import', '--list', '--data', newFolder())).stdout).toMatch(/^NODE .*\n$/);
});

test('data that is only in the log of a crashed host is imported, and the source is unchanged', () => {
  const { folder, path } = unfinished();
  const before = ['', '-wal'].map((end) => readFileSync(path + end));
  const data = newFolder();
  expect(importRecording(path, data).info.eventCount).toBe(ROWS.length);
  expect(imports(data)).toHaveLength(1);
  expect(['', '-wal'].map((end) => readFileSync(path + end))).toEqual(before);
  expect(readdirSync(folder).filter((name) => !name.endsWith('-shm'))).toHaveLength(2);
});

test('a recording is imported while an agent writes it, and again when it has grown', () => {
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

/** Runs a command as a user who may write only to `data`. */
async function asNobody(data: string, ...args: string[]): Promise<Ended> {
  chownSync(data, NOBODY, NOBODY);
  const [command, ...front] = AS_NOBODY;
  const entry = resolve(import.meta.dirname, '../../../../kreplay.ts');
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

test('an unprivileged user imports from a folder of another user, including the log', async () => {
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

test('the node name of a recording is escaped on the terminal', async () => {
  const path = recordingPath(recorded([{ at: START }]));
  changeWith(path, "UPDATE meta SET value = 'evil' || char(27) || '[2J' || char(10) WHERE key = 'node'");
  const data = newFolder();
  const { stdout } = await hosted('import', path, '--data', data);
  expect(stdout).toMatch(/: 1 events of evil\\u\{1b\}\[2J\\u\{a\}\n$/);
  expect((await hosted('import', '--list', '--data', data)).stdout).toContain('evil\\u{1b}[2J\\u{a}');
});

test('two concurrent imports are one', async () => {
  const source = recordingPath(recorded(ROWS));
  const data = newFolder();
  const ended = await Promise.all(Array.from({ length: 3 }, () => kreplay('import', source, '--data', data)));
  expect(ended.map(({ code, stderr }) => [code, stderr])).toEqual(Array(3).fill([0, '']));
  expect(imports(data)).toHaveLength(1);
});

test('a list states what is wrong with one import, beside the others', async () => {
  const data = newFolder();
  const { path } = importRecording(recordingPath(recorded(ROWS)), data);
  writeFileSync(join(data, 'imported', '0.kreplay'), 'x'.repeat(5000));
  const { code, stdout, stderr } = await hosted('import', '--list', '--data', data);
  const [, bad, good] = stdout.split('\n');
  expect([code, stderr]).toEqual([0, '']);
  expect(bad).toMatch(/^- .*0\.kreplay .*is not a kreplay recording/);
  expect(good).toMatch(new RegExp(`^${NODE} .*${path}$`));
});

test.each(['SIGTERM', 'SIGKILL'] as const)(
  '%s ends the import, and the next one removes the leftovers',
  async (signal) => {
    const data = newFolder();
    mkdirSync(join(data, 'imported'));
    const source = recordingPath(recorded(Array.from({ length: 100_000 }, (_, i) => ({ at: START + BigInt(i) }))));
    const begun = appearing(join(data, 'imported'));
    const { child, ended } = start('import', source, '--data', data);
    await begun;
    child.kill(signal);
    await ended;
    expect(child.signalCode).toBe(signal);
    expect(imports(data)).not.toEqual([]);
    expect(imports(data).filter((name) => !name.startsWith(`.kreplay-${child.pid}-`))).toEqual([]);
    await hosted('import', '--list', '--data', data);
    expect(imports(data)).toEqual([]);
  },
);

test('what another process is still writing is kept', () => {
  const data = newFolder();
  mkdirSync(join(data, 'imported'));
  const theirs = join(data, 'imported', `.kreplay-${process.ppid}-0123456789ab.tmp`);
  writeFileSync(theirs, '');
  importRecording(recordingPath(recorded([{ at: START }])), data);
  expect(existsSync(theirs)).toBe(true);
});

test('inaccessible folders are reported in one line', async () => {
  const closed = newFolder();
  chmodSync(closed, 0o700);
  const data = newFolder();
  for (const args of [
    ['import', '--list', '--data', join(closed, 'data')],
    ['import', join(closed, 'file'), '--data', data],
    ['export', '--from', '0', '--data', join(closed, 'data')],
    ['sql', 'select 1', '--recording', join(closed, 'file')],
  ]) {
    const { code, stdout, stderr } = await asNobody(data, ...args);
    expect([args[0], code, stdout]).toEqual([args[0], 1, '']);
    expect(stderr).toMatch(/^kreplay: .*: it cannot be reached: check the path, .*\(EACCES.*\)\n$/);
  }
});

describe('a file that cannot be imported is refused with the reason, and leaves nothing', () => {
  async function refused(file: string, data = newFolder()): Promise<string> {
    const { code, stdout, stderr } = await hosted('import', file, '--data', data);
    expect([code, stdout, existsSync(join(data, 'imported')) ? imports(data) : []]).toEqual([1, '', []]);
    expect(stderr).toMatch(/^kreplay: .+\n$/);
    return stderr;
  }

  test('a missing file, a folder, another file, another database', async () => {
    const place = newFolder();
    expect(await refused(join(place, 'none'))).toContain('there is no file');
    await refused(place);
    writeFileSync(join(place, 'text'), 'x'.repeat(5000));
    expect(await refused(join(place, 'text'))).toContain('not a kreplay recording');
    readWith('sqlite3', [join(place, 'other.db'), 'CREATE TABLE t (x)']);
    expect(await refused(join(place, 'other.db'))).toContain('is not a kreplay recording');
  });

  test('a recording whose node name would leave the folder', async () => {
    const path = recordingPath(recorded([{ at: START }]));
    const data = join(newFolder(), 'data');
    for (const id of ['../../pwn', '', '0123456789ABCDEF', '0123456789abcdef0']) {
      changeWith(path, `UPDATE meta SET value = '${id}' WHERE key = 'recording_id'`);
      expect(await refused(path, data)).toContain('its recording id is malformed');
    }
    expect(readdirSync(join(data, '..'))).toEqual(['data']);
  });

  test.each([
    ['a view', 'CREATE VIEW loss AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n'],
    ['a virtual table', 'CREATE VIRTUAL TABLE loss USING fts5(from_ns, to_ns, cause, event_type, count)'],
    ['a trigger', 'CREATE TRIGGER more AFTER INSERT ON pin BEGIN DELETE FROM segment; END'],
  ])('a recording with %s in it', async (_, sql) => {
    const path = recordingPath(recorded([{ at: START }]));
    changeWith(path, `ALTER TABLE loss RENAME TO lost; ${sql}`);
    expect(await refused(path)).toContain('which no kreplay makes: do not trust it');
  });

  test('a recording with events of an unknown type', async () => {
    const path = recordingPath(recorded(ROWS));
    changeWith(path, 'UPDATE segment SET type_mask = 1 << 20');
    expect(await refused(path)).toContain('event types that this kreplay does not know: use a newer one');
  });

  test('an unknown format version', async () => {
    const path = recordingPath(recorded([{ at: START }]));
    changeWith(path, 'PRAGMA user_version = 999');
    expect(await refused(path)).toContain('format version 999');
  });

  test('a truncated recording', async () => {
    const path = recordingPath(recorded(ROWS));
    truncateSync(path, readFileSync(path).length / 2);
    await refused(path);
  });

  test('a recording whose events cannot be decoded', async () => {
    const path = recordingPath(recorded(ROWS));
    changeWith(path, 'UPDATE segment SET data = zeroblob(length(data))');
    expect(await refused(path)).toContain(`${path} was not imported: the recording is damaged`);
  });

  test('no space for the import', async () => {
    const path = recordingPath(recorded(ROWS));
    const disk = newSmallDisk(16);
    mkdirSync(join(disk, 'data'));
    expect(await refused(path, join(disk, 'data'))).toContain('no space is left on the device');
  });

  test('no file to import is a usage error', async () => {
    for (const args of [[], ['--list', 'file']]) {
      const { code, stderr } = await hosted('import', ...args);
      expect([code, stderr]).toEqual([2, 'error: give recordings to import, or --list\nSee kreplay import --help\n']);
    }
  });
});
