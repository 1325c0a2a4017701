/**
 * The pages show commands with what they print. Each command is run here as it stands, on a terminal and in the
 * situation that its page describes, and prints the same, but for numbers.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ROOT } from '../kernel/programs.ts';
import { type SlowDisk, slowDisk } from '../kernel/slow_disk.ts';
import { endAll, freePort, KREPLAY, start } from './kreplay.ts';

const PAGES = ['README.md', 'daemon/docs/ci.md', 'daemon/docs/replay.md'] as const;
/** `test/e2e/demo.root.test.ts` runs it. */
const ELSEWHERE = ['sudo build/kreplay demo'];
const WRITES_PER_SECOND = 4;
/** The pages' texts are wider than most terminals. */
const TERMINAL_COLUMNS = 300;

interface Transcript {
  page: string;
  command: string;
  shown: string[];
}

/** Commands in the code blocks of a page that begin with a prompt, with the lines up to the next one. */
function transcriptsOf(page: string): Transcript[] {
  const text = readFileSync(join(ROOT, page), 'utf8');
  const blocks = [...text.matchAll(/^```\n(\$ .*?)^```$/gms)].map(([, block]) => block!);
  return blocks.flatMap((block) =>
    block
      .split(/^\$ /m)
      .filter(Boolean)
      .map((part) => {
        const [command, ...shown] = part.trimEnd().split('\n');
        return { page, command: command!, shown };
      }),
  );
}

const TRANSCRIPTS = PAGES.flatMap(transcriptsOf).filter(({ command }) => !ELSEWHERE.includes(command));

const CLIENT = /^```python\n(.*?)^```$/ms.exec(readFileSync(join(ROOT, 'daemon/docs/ci.md'), 'utf8'))![1]!;

/** Numbers with their units, and the spaces that align columns, are the same in every text. */
const masked = (line: string): string =>
  line
    .replaceAll(/\d[\d.,:-]*(ns|us|ms|s|%|[TZ]\S*)?(?=\W|$)/g, '0')
    .replaceAll(/\b(events|calls)\b/g, (word) => word.slice(0, -1))
    .replaceAll(/\b(were|was)\b/g, 'was')
    .replaceAll(/ +/g, ' ')
    .trimEnd();

/** A line `...` of the page stands for any number of lines. */
function isShownBy(printed: readonly string[], shown: readonly string[]): boolean {
  const [first, ...rest] = shown;
  if (first === undefined) return printed.length === 0;
  if (first === '...') return printed.some((_, i) => isShownBy(printed.slice(i), rest)) || isShownBy([], rest);
  return printed[0] === first && isShownBy(printed.slice(1), rest);
}

/** Lines of `whatif` that depend on the disk: the first events that are late, and what was written back by then. */
const dependsOnDisk = (line: string) => /^\+[\d.]+|write (its|their) data back to disk/.test(line);

const folder = mkdtempSync(join(tmpdir(), 'kreplay-transcripts-'));
const folderOf = (page: string) => join(folder, page.replaceAll('/', '_'));
let disk: SlowDisk;
let url: string;
/** Whether the kernel has skipped the program of a request's end, which a busy one does now and then: it is counted. */
let hasMissedEnds = false;

beforeAll(async () => {
  disk = slowDisk(WRITES_PER_SECOND);
  const listen = `127.0.0.1:${await freePort()}`;
  url = `http://${listen}`;
  const data = join(folder, 'data');
  for (const page of PAGES) {
    mkdirSync(folderOf(page), { recursive: true });
    writeFileSync(join(folderOf(page), 'client.py'), CLIENT);
  }
  writeFileSync(
    join(folder, 'kreplay.toml'),
    `# The agent of this host.\n\n[agent]\nretain-age = "7d"\nretain_bites = "10GB"\n`,
  );
  const up = start(['up', '--data', data, '--listen', listen]);
  await up.says(url);
  const client = join(folderOf(PAGES[0]), 'client.py');
  const labelled = (transaction: string) => [KREPLAY, 'exec', '--service', 'shop', '--transaction', transaction, '--'];
  const [shell, ...words] = [...disk.command, ...labelled('order-1'), 'python3', client, disk.folder, '0.2'];
  expect(() => execFileSync(shell!, words)).toThrow('Command failed');
  const writes = ['dd', 'if=/dev/zero', `of=${join(folder, 'f')}`, 'bs=4k', 'count=100', 'oflag=direct'];
  const [exec, ...rest] = [...labelled('order-2'), ...writes];
  execFileSync(exec!, rest, { stdio: 'ignore' });
  for (const id of ['order-1', 'order-2']) await recordedWhole(id);
}, 120_000);

afterAll(() => {
  endAll();
  disk.remove();
  rmSync(folder, { recursive: true });
});

/** Resolves when the recording has all events of a transaction that has ended. */
async function recordedWhole(id: string): Promise<void> {
  // biome-ignore lint/suspicious/noExplicitAny: the answer's schema is tested elsewhere
  const missedEnds = ({ coverage }: any) =>
    coverage.losses.map(({ cause }: { cause: string }) => cause === 'end_missed');
  for (const endedNs = BigInt(Date.now()) * 1_000_000n; ; ) {
    const answer = await fetch(`${url}/api/transactions/${id}`);
    const text = await answer.text();
    const until = /"recorded_until":(\d+)/.exec(text)?.[1];
    if (!answer.ok || !until || BigInt(until) <= endedNs) continue;
    const missed = missedEnds(JSON.parse(text));
    hasMissedEnds ||= missed.length > 0 && missed.every(Boolean);
    return;
  }
}

const CLEAR_LINE = '\r\u001b[K';

/** What the command of a page prints on a terminal. */
function printed({ page, command }: Transcript): string[] {
  if (command.includes(' export ')) rmSync(join(folderOf(page), 'incident.kreplay'), { force: true });
  const isWhatIf = command.includes('whatif');
  // Each run of the client begins with an empty log, as the incident did.
  if (command.includes('client.py')) rmSync(join(disk.folder, 'orders.log'), { force: true });
  const here = isWhatIf ? command.replaceAll('order-1', 'order-2') : command.replaceAll('/srv/shop', disk.folder);
  const script = join(folder, 'command.sh');
  const isConfig = command.includes('config');
  writeFileSync(script, [`stty cols ${TERMINAL_COLUMNS}`, `cd ${folderOf(page)}`, here].join('\n'));
  const { stdout: output } = spawnSync('script', ['--quiet', '--return', '--command', `sh ${script}`, '/dev/null'], {
    encoding: 'utf8',
    env: {
      PATH: `${dirname(KREPLAY)}:${process.env.PATH}`,
      KREPLAY_URL: url,
      KREPLAY_DATA: join(folder, 'data'),
      NO_COLOR: '1',
      TERM: 'dumb',
      ...(isConfig ? { KREPLAY_CONFIG: join(folder, 'kreplay.toml') } : {}),
    },
  });
  return (
    output
      .replaceAll('\r\n', '\n')
      .replaceAll(join(folder, 'kreplay.toml'), '/etc/kreplay/kreplay.toml')
      .replaceAll(disk.folder, '/srv/shop')
      .replaceAll('order-2', 'order-1')
      .trimEnd()
      .split('\n')
      // A command that takes longer than a second shows its progress and clears it.
      .map((line) => line.split(CLEAR_LINE).at(-1)!)
      .filter((line, _, all) => all.length > 1 || line !== '')
      .flatMap((line) => (hasMissedEnds ? withoutMissedEnds(line) : [line]))
  );
}

/** What a command prints where nothing is missing. */
function withoutMissedEnds(line: string): string[] {
  const isWarning = /^kreplay: warning: .* without the kernel running the program/.test(line);
  return isWarning ? [] : [line.replace(/; the recording is missing \d+ events in this window$/, '')];
}

test.each(TRANSCRIPTS)('$page: $command', (transcript) => {
  const lines = (text: readonly string[]) => text.filter((line) => !dependsOnDisk(line)).map(masked);
  const [output, shown] = [lines(printed(transcript)), lines(transcript.shown)];
  if (!isShownBy(output, shown)) expect(output).toEqual(shown);
});

test('a line that is missing on the page, or only there, is found', () => {
  expect(isShownBy(['a', 'b', 'c'], ['a', '...', 'c'])).toBe(true);
  expect(isShownBy(['a', 'b', 'c'], ['a', '...'])).toBe(true);
  expect(isShownBy(['a', 'c'], ['a', '...', 'c'])).toBe(true);
  expect(isShownBy(['a', 'b'], ['a', '...', 'c'])).toBe(false);
  expect(isShownBy(['a', 'b'], ['a'])).toBe(false);
  expect(isShownBy(['a'], ['a', 'b'])).toBe(false);
  expect(masked('2026-11-23T11:51:59.740417678Z  273.843ms  sys_sync')).toBe('0 0 sys_sync');
  expect(masked('kreplay run: 100% of 2.83s planned; late by 9.5us')).toBe('kreplay run: 0 of 0 planned; late by 0');
});
