/*
 * Tests for leaks: after thousands of objects opened and closed, and dozens loaded, attached and drained, the process
 * has no more memory, file descriptors and mappings than after the first of them, and holds no map. LeakSanitizer,
 * which sees single allocations, must find none of the addon's.
 */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';
import { times } from '../../repeats.ts';
import { compileBpf, root } from '../compile.ts';

const run = promisify(execFile);
const MIB = 1 << 20;

interface Held {
  rss_bytes: number;
  fds: number;
  mappings: number;
  bpf_maps: number;
}

function roundsOf(rounds: number, body: string): string {
  return `
    import { readFileSync } from 'node:fs';
    import { BpfObject } from 'libbpf-ts';
    const file = ${JSON.stringify(compileBpf('hooks'))};
    const bytes = readFileSync(file);
    const buffer = new Uint8Array(4096);
    for (let round = 0; round < ${rounds}; round++) {
      ${body}
      // What is thrown away is collected in time, as in a program that does something else as well.
      if (round % 100 === 0) await new Promise(setImmediate);
    }`;
}

/** Resources that a process holds after the first fifth of `rounds` of `body`, and after all of them. */
async function heldAfter(rounds: number, body: string): Promise<[before: Held, after: Held]> {
  const source = `
    import { readdirSync } from 'node:fs';
    const maps = () => readdirSync('/proc/self/fdinfo').filter((fd) => {
      try { return /^map_id:/m.test(readFileSync('/proc/self/fdinfo/' + fd, 'utf8')); } catch { return false; }
    }).length;
    const held = () => {
      globalThis.gc();
      return {
        rss_bytes: process.memoryUsage.rss(),
        fds: readdirSync('/proc/self/fd').length,
        mappings: readFileSync('/proc/self/maps', 'utf8').split('\\n').length,
        bpf_maps: maps(),
      };
    };
    let before;
    ${roundsOf(rounds, `if (round === ${rounds / 5}) before = held(); ${body}`)}
    console.log(JSON.stringify([before, held()]));`;
  const { stdout } = await run(process.execPath, ['--expose-gc', '--input-type=module', '-e', source], { cwd: root });
  return JSON.parse(stdout);
}

const ROUNDS: [rounds: number, what: string, body: string][] = [
  [times(2000), 'opened and closed', 'BpfObject.open(round % 2 ? file : bytes, { name: "leaks" }).close();'],
  [times(2000), 'refused', 'try { BpfObject.open(bytes.subarray(0, round % bytes.length)).close(); } catch {}'],
  [
    times(60),
    'loaded, attached, drained and closed',
    `const object = BpfObject.open(file);
     object.load();
     object.attach();
     object.ring('events').drain(buffer);
     object.close();`,
  ],
];

test.each(ROUNDS)(
  '%d objects are %s',
  async (rounds, _what, body) => {
    const [before, after] = await heldAfter(rounds, body);
    expect(after.fds).toBe(before.fds);
    expect([before.bpf_maps, after.bpf_maps]).toEqual([0, 0]);
    expect(after.mappings - before.mappings).toBeLessThan(20);
    expect(after.rss_bytes - before.rss_bytes).toBeLessThan(8 * MIB);
  },
  120_000,
);

test.each(ROUNDS)(
  'no allocation of the addon remains after %d objects are %s',
  (rounds, _what, body) => {
    const stderr = leaksAfter(rounds, body);
    // Node itself leaks a few allocations, which shows that LeakSanitizer is active.
    expect(stderr).toContain('SUMMARY: LeakSanitizer');
    expect(stderr.split('\n\n').filter((leak) => leak.includes('libbpf_ts.node'))).toEqual([]);
  },
  120_000,
);

/** LeakSanitizer's report on a process that ends after `rounds` of `body`. */
function leaksAfter(rounds: number, body: string): string {
  const sanitizer = execFileSync('gcc', ['-print-file-name=liblsan.so'], { encoding: 'utf8' }).trim();
  const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', roundsOf(rounds, body)], {
    cwd: root,
    encoding: 'utf8',
    // libelf is built without frame pointers, which the fast unwinder needs.
    env: { ...process.env, LD_PRELOAD: sanitizer, LSAN_OPTIONS: 'fast_unwind_on_malloc=0' },
    maxBuffer: 64 * MIB,
  });
  return stderr;
}
