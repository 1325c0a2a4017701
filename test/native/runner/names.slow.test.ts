/** Tests files whose names a recording does not contain verbatim. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import fc from 'fast-check';
import { describeFile } from '../../../agent/attribution/files.ts';
import { FILE_FLAGS } from '../../../bpf/schema/definitions.ts';
import { planOf } from './plans.ts';
import { compileC, newFolder, readReport, removeFolder, run } from './run.ts';

const HELD_NS = 20_000_000;
/** The most that calibration may subtract from a wait. */
const EARLY_NS = 100_000;

let folder = '';
beforeEach(() => {
  folder = newFolder();
});
afterEach(() => removeFolder(folder));

const text = (bytes: Buffer) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);

/** Writes once to each file, whose names are given as hex, and prints how long that took. */
const WRITER = `
import os, sys, time
for name in sys.argv[1:]:
    path = bytes.fromhex(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    begun = time.monotonic_ns()
    os.write(file, b'x')
    print(time.monotonic_ns() - begun)`;

/** Which writes the runner held. Those took as long for the build; how long others take depends on the machine. */
async function felt(recorded: readonly string[], written: readonly Buffer[]) {
  const ended = await run(folder, {
    plan: planOf(
      recorded.map((path) => ({
        path,
        comm: 'python3',
        calls: [{ targetNs: HELD_NS }, { targetNs: HELD_NS }],
      })),
    ),
    command: ['python3', '-c', WRITER, ...written.map((path) => path.toString('hex'))],
  });
  expect(ended.code).toBe(0);
  const { calls } = readReport(join(folder, 'report'));
  const isHeld = calls.map(({ target_ns }) => target_ns > 0n);
  const took = ended.stdout.trim().split('\n').map(Number);
  expect(isHeld).toHaveLength(took.length);
  expect(took.filter((ns, i) => isHeld[i] && ns < HELD_NS - EARLY_NS)).toEqual([]);
  return { isHeld, unclear: ended.lines.find(({ what }) => what === 'unclear_name')?.count };
}

const inFolder = (name: string) => Buffer.concat([Buffer.from(`${folder}/`), Buffer.from(name, 'latin1')]);

test('a name that is not UTF-8', async () => {
  const [cafe, thé] = ['caf\xe9.log', 'th\xe9.log'].map(inFolder) as [Buffer, Buffer];
  expect(await felt([text(cafe)], [cafe, thé])).toEqual({ isHeld: [true, false], unclear: undefined });
});

test('two names that are equal in the recording: the second matches no file of it, and that is reported', async () => {
  const names = ['caf\xe9.log', 'caf\xe8.log', 'caf\xe9.log'].map(inFolder);
  expect(await felt([text(names[0]!)], names)).toEqual({ isHeld: [true, false, true], unclear: 1 });
});

/** The path as the agent records it when the kernel side passes this many path components. */
function cut(path: Buffer, names: number): string {
  const all = path.toString().slice(1).split('/').reverse().slice(0, names);
  return describeFile({ file_id: 1, inode: 1, filesystem: 1, mode: 0o100644, flags: FILE_FLAGS.FILE_TRUNCATED }, all)
    .path;
}

test.each([64, 62])('a file in so many folders that the recording has only the last %s names', async (names) => {
  const deep = inFolder(`${'d/'.repeat(81)}file.log`);
  const other = inFolder(`${'d/'.repeat(81)}other.log`);
  expect(await felt([cut(deep, names)], [deep, other])).toEqual({ isHeld: [true, false], unclear: undefined });
  const twin = inFolder(`e/${'d/'.repeat(81)}file.log`);
  expect(await felt([cut(deep, names)], [deep, twin])).toEqual({ isHeld: [true, false], unclear: 1 });
});

test('any bytes are converted as by the agent', () => {
  const driver = compileC('name_driver', ['identify/recorded_name.c']);
  const byte = fc.oneof(
    fc.integer({ min: 1, max: 255 }),
    fc.constantFrom(0x41, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2, 0xe0, 0xe2, 0xed, 0xef, 0xf0, 0xf4, 0xf5),
  );
  const names = fc.sample(
    fc
      .uint8Array({ minLength: 1, maxLength: 12 })
      .chain(({ length }) => fc.array(byte, { minLength: length, maxLength: length })),
    5000,
  );
  const input = names.map((bytes) => Buffer.from(bytes).toString('hex')).join('\n');
  const lines = execFileSync(driver, { input: `${input}\n`, encoding: 'utf8' })
    .trim()
    .split('\n');
  expect(lines).toEqual(names.map((bytes) => Buffer.from(text(Buffer.from(bytes))).toString('hex')));
});
