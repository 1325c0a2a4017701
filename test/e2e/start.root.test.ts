// A command that cannot start says in one line why, and what to do; a running one ends cleanly, however it is ended.
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { HOST_UNFIT_EXIT_CODE } from '../../agent/process/errors.ts';
import { openReader } from '../../agent/recording/read/reader.ts';
import { createWholeProgram } from '../../daemon/cli/program.ts';
import { newAuthority, newCertificate } from '../daemon/certificates.ts';
import { withoutMissedEnds } from '../kernel/missed_ends.ts';
import { AS_NOBODY, asNobodyWith, NOBODY } from '../unprivileged.ts';
import { endAll, freePort, KREPLAY, kreplay, start, temporaryFolder } from './kreplay.ts';

const folder = temporaryFolder();
chmodSync(folder.path, 0o755);

afterAll(() => {
  endAll();
  folder.remove();
});

function inFolder(name: string): string {
  return join(folder.path, name);
}

/** Runs a `kreplay up` that cannot start, and returns its complaint, which has to be one line. */
async function complaintOf(args: readonly string[], command: readonly string[] = [], code = 1): Promise<string> {
  const listen = args.includes('--listen') ? [] : ['--listen', `127.0.0.1:${await freePort()}`];
  const running = start(['up', ...args, ...listen], command);
  const { status } = await running.ended;
  expect(status).toBe(code);
  const lines = withoutMissedEnds(running.complaints()).trim().split('\n');
  expect(lines).toHaveLength(1);
  return lines[0]!;
}

test('a folder that cannot be created or written', async () => {
  writeFileSync(inFolder('file'), '');
  expect(await complaintOf(['--data', inFolder('file')])).toContain('--data');
  mkdirSync(inFolder('roots'));
  expect(await complaintOf(['--data', inFolder('roots')], AS_NOBODY)).toContain('cannot be written');
});

test('a user who may not load BPF programs', async () => {
  mkdirSync(inFolder('nobodys'));
  chownSync(inFolder('nobodys'), NOBODY, NOBODY);
  const complaint = await complaintOf(['--data', inFolder('nobodys')], AS_NOBODY, HOST_UNFIT_EXIT_CODE);
  expect(complaint).toContain('run as root, or with CAP_BPF');
});

test('a kernel without BTF', async () => {
  // A mount namespace that hides the file looks like such a kernel to every program.
  const hide = 'mount -t tmpfs tmpfs /sys/kernel/btf && exec "$@"';
  const hidden = ['unshare', '--mount', 'sh', '-c', hide, 'sh'];
  const complaint = await complaintOf(['--data', inFolder('btf')], hidden, HOST_UNFIT_EXIT_CODE);
  expect(complaint).toContain('CONFIG_DEBUG_INFO_BTF');
});

const IN_OWN_PIDS = ['unshare', '--pid', '--fork', '--mount-proc'];
const WITHOUT_PERFMON = asNobodyWith('bpf');

test.each([
  ['processes of its own', IN_OWN_PIDS, 'in a pid namespace of its own'],
  ['clocks of its own', ['unshare', '--time', '--fork', '--boottime', '100000'], 'in a time namespace'],
  ['one of two capabilities', WITHOUT_PERFMON, 'CAP_PERFMON missing'],
])('an agent with %s ends with the code after which it is not started again', async (_, front, words) => {
  const data = join(folder.path, words.replaceAll(' ', '-'));
  mkdirSync(data);
  chownSync(data, NOBODY, NOBODY);
  const agent = start(['agent', '--data', data], front);
  expect(await agent.ended).toEqual({ status: HOST_UNFIT_EXIT_CODE, signal: null });
  const complaint = agent.complaints().trim();
  expect(complaint).toContain(words);
  expect(complaint).toMatch(/^kreplay: .*; run `kreplay doctor`, which reports all that this host lacks$/);
});

test('a demo on a host that cannot be recorded says what to do once', () => {
  const [file, ...front] = IN_OWN_PIDS;
  const { status, stderr } = spawnSync(file!, [...front, KREPLAY, 'demo', '--no-serve'], { encoding: 'utf8' });
  expect(status).toBe(HOST_UNFIT_EXIT_CODE);
  expect(stderr).toMatch(/^kreplay: the demo's agent cannot record: .*pid namespace.*\n$/);
  expect(stderr.split('kreplay doctor')).toHaveLength(2);
});

test('what may be gone at the next start does not end with that code', async () => {
  const agent = start(['agent', '--data', inFolder('few')], ['sh', '-c', 'ulimit -n 40; exec "$@"', 'sh']);
  expect((await agent.ended).status).toBe(1);
  expect(agent.complaints()).toContain('may not open more files');
});

test('a port in use, and a folder that another agent records into', async () => {
  const port = await freePort();
  const first = start(['up', '--data', inFolder('taken'), '--listen', `127.0.0.1:${port}`]);
  await first.says('Try next');
  expect(await complaintOf(['--data', inFolder('other'), '--listen', `127.0.0.1:${port}`])).toContain(
    `port ${port} is taken`,
  );
  expect(await complaintOf(['--data', inFolder('taken')])).toContain('another agent records');
  first.process.kill('SIGTERM');
  expect(await first.ended).toEqual({ status: 0, signal: null });
});

test('up passes its options to the daemon, and SIGHUP to both processes', async () => {
  const authority = newAuthority(folder.path);
  const { cert, key } = newCertificate(folder.path, 'daemon', authority);
  const [tokens, filter] = [inFolder('tokens.json'), inFolder('filter.json')];
  const { stdout: secret } = kreplay(['token', 'create', '--name', 'a', '--scope', 'events:read', '--tokens', tokens]);
  writeFileSync(filter, '{"comms": ["dd"]}');
  const access = ['--tokens', tokens, '--tls-cert', cert, '--tls-key', key];
  const up = start(['up', '--data', inFolder('served'), '--filter-file', filter, '--listen', '127.0.0.1:0', ...access]);
  await up.says('kreplay daemon: serving');
  // The agent may not have started yet.
  up.process.kill('SIGHUP');
  await up.says('Try next');
  const url = / at (https:\S+)\n/.exec(up.output())![1]!;
  expect(up.output()).toContain(`curl -H "Authorization: Bearer $KREPLAY_TOKEN" '${url}/api/transactions/order-`);
  await up.complains(/"name":"kreplay-agent".*"the filter was read again"/);
  await up.complains(/"name":"kreplay-daemon".*"tokens were read again"/);
  await up.complains(/"name":"kreplay-daemon".*"certificates were read again"/);
  const asked = (token: string) =>
    kreplay(['services', '--url', url], { env: { ...process.env, KREPLAY_CA: authority.cert, KREPLAY_TOKEN: token } });
  expect(asked(secret.trim()).status).toBe(0);
  expect(asked('').stderr).toContain('unauthorized');
  writeFileSync(filter, '{');
  writeFileSync(tokens, '{');
  up.process.kill('SIGHUP');
  await up.complains(/the filter stays as it is/);
  await up.complains(/tokens stay as they were/);
  expect(asked(secret.trim()).status).toBe(0);
  up.process.kill('SIGTERM');
  expect(await up.ended).toEqual({ status: 0, signal: null });
});

test.each([
  ['--tls-cert', 'cert.pem'],
  ['--listen', '0.0.0.0'],
  ['--max-scans', '0'],
  ['--log-format', 'xml'],
])('up %s %s is a usage error, reported before anything starts', (...args) => {
  const { status, stdout, stderr } = kreplay(['up', '--data', inFolder('unused'), ...args]);
  expect([status, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(/^error: .+\nSee kreplay up --help\n$/);
});

test("up takes the package's configuration; if it is killed, agent and daemon end and the recording is complete", async () => {
  // It has settings of a daemon by itself, and of other commands.
  const packaged = readFileSync(join(import.meta.dirname, '../../daemon/package/debian/kreplay.toml'), 'utf8');
  writeFileSync(inFolder('package.toml'), packaged);
  const config = ['--config', inFolder('package.toml')];
  const data = inFolder('killed');
  const port = await freePort();
  const state = inFolder('sessions');
  const up = start(['up', ...config, '--data', data, '--listen', `127.0.0.1:${port}`, '--state', state]);
  await up.says('Try next');
  expect(statSync(state).mode & 0o777).toBe(0o600);
  up.process.kill('SIGKILL');
  // `close` comes after the children have ended: they hold the pipes until then.
  await up.ended;
  const reader = openReader(join(data, 'recording.kreplay'));
  expect(reader.info().eventCount).toBeGreaterThan(0);
  reader.close();
});

test.each([[], ['up'], ['agent'], ['daemon'], ['exec'], ['events'], ['replay']])(
  'kreplay %s --help',
  async (...args) => {
    const program = await createWholeProgram();
    const command = args.length === 0 ? program : program.commands.find((each) => each.name() === args[0])!;
    const help = command.helpInformation();
    expect(help).toContain('Usage: kreplay');
    if (args[0] === 'up') {
      const { status, stdout, stderr } = kreplay(['up', '--help']);
      expect([status, stderr, stdout.split('\nExamples:\n')[0]!.trimEnd()]).toEqual([0, '', help.trimEnd()]);
    }
    // It fits on one screen, except that `up` takes the options of an agent and a daemon, and a daemon those of a fleet.
    const longer: Record<string, number> = { up: 95, daemon: 85 };
    expect(help.trimEnd().split('\n').length).toBeLessThanOrEqual(longer[args[0] ?? ''] ?? 50);
  },
);
