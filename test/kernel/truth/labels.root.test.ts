/** The owners of calls, where they are hard to see: each program writes to a file named after its transaction. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { times } from '../../repeats.ts';
import { bash, compileProgram } from '../programs.ts';
import {
  type FilteredRecorder,
  newRecorder,
  type Recorded,
  removeFolders,
  startFilteredAgent,
  temporaryFolder,
} from '../recorded_run.ts';

/** The agent of all tests here but those of filters. */
const { record, stop } = newRecorder();

afterAll(async () => {
  await stop();
  removeFolders();
});

/** Contexts that the agent keeps at a time: contexts.ts. */
const CONTEXTS_MAX = 32_768;

/** Transactions by name of the file that was written to. */
function ownersIn({ writes }: Recorded, folder: string): Record<string, (string | null)[]> {
  const found: Record<string, (string | null)[]> = {};
  for (const { file, transaction_id } of writes()) {
    if (!file?.startsWith(`${folder}/`)) continue;
    found[basename(file)] ??= [];
    found[basename(file)]!.push(transaction_id);
  }
  return found;
}

const OF_32_BITS = compileProgram('truth/markers_of_32_bits', [], 'markers_of_32_bits');
const has32Bits = spawnSync(OF_32_BITS).status === 0;
if (!has32Bits) console.warn('skipped: this kernel has no 32-bit calls; `make test-kernels` tests them in others');

(has32Bits ? test : test.skip)('markers of 32-bit calls apply to 64-bit children', async () => {
  const folder = temporaryFolder();
  const recorded = await record(() => {
    bash(`printf 'KREPLAY1 txn=before' > /dev/null; exec ${OF_32_BITS} ${folder}`);
  });
  const expected = ['write', 'writev', 'pwrite64', 'pwritev', 'pwritev2'].flatMap((call) => [
    [call, [call]],
    [`after-${call}`, [null]],
  ]);
  expect(ownersIn(recorded, folder)).toEqual({ before: ['before'], ...Object.fromEntries(expected) });
});

/** The recording's bytes as they are, without our reader. */
function bytesOf(dataFolder: string): string {
  const names = readdirSync(dataFolder).filter((name) => name.startsWith('recording.kreplay'));
  return names.map((name) => readFileSync(join(dataFolder, name)).toString('latin1')).join('');
}

interface LeftOut {
  filter: object;
  environment: string;
  /** The label that it sets for some of its writes. */
  label?: string;
  /** The program that makes these; `head` by default. */
  program?: string;
  /** A script that writes to the file and is recorded. */
  kept(file: string): string;
}

const LEFT_OUT: readonly LeftOut[] = [
  {
    filter: { only_labelled: true },
    environment: 'OTEL_SERVICE_NAME=secret-service',
    kept: (file) => `printf 'KREPLAY1 txn=wanted' > /dev/null; echo x > ${file}`,
  },
  // The kernel side knows the service of a process only after its first writes, and never that of a short one.
  {
    filter: { except_services: ['secret'] },
    environment: 'OTEL_SERVICE_NAME=secret',
    label: 'txn=secret-transaction svc=secret',
    kept: (file) => `echo x > ${file}`,
  },
  {
    filter: { except_comms: ['secret-command'] },
    environment: '',
    program: 'secret-command',
    kept: (file) => `echo x > ${file}`,
  },
  // A write takes as long as the pipe is full.
  {
    filter: { min_duration: '1s' },
    environment: 'OTEL_SERVICE_NAME=secret-service',
    label: 'txn=secret-transaction trace=5ec2e7005ec2e7005ec2e7005ec2e700',
    kept: (file) =>
      `mkfifo ${file}; { sleep 2; cat > /dev/null; } < ${file} & head -c 300000 /dev/zero | dd of=${file} bs=300000 count=1 iflag=fullblock status=none; wait`,
  },
];

describe('what a filter excludes leaves no name in the recording: no file, service, command or transaction', () => {
  const folders: string[] = [];
  let bytes: string;

  beforeAll(async () => {
    // It is there before the agent starts, which would record how it is made.
    const programs = temporaryFolder();
    bash(`cp /usr/bin/head ${programs}/head; cp /usr/bin/head ${programs}/secret-command`);
    const filtered: FilteredRecorder = await startFilteredAgent();
    try {
      for (const { filter, environment, label, program = 'head', kept } of LEFT_OUT) {
        const folder = temporaryFolder();
        folders.push(folder);
        await filtered.record(filter, () => {
          const sizes = 'for size in 2 11 500 1023 1024 5000';
          bash(`${sizes}; do ${environment} ${programs}/${program} -c $size /dev/zero > ${folder}/secret-$size; done`);
          if (label) {
            const script = `echo "KREPLAY1 ${label}" > /dev/null; exec ${programs}/${program} -c 10 /dev/zero`;
            bash(`${environment} bash -c '${script}' > ${folder}/secret-labelled`);
          }
          bash(kept(`${folder}/wanted`));
          if (program === 'head') {
            const vector = `import os; os.writev(os.open('${folder}/secret-vector', 65), [b'x' * 40, b'y' * 40])`;
            bash(`${environment} python3 -c "${vector}"`);
            bash(`${environment} dd if=/dev/zero of=${folder}/secret-synced bs=1k count=1 conv=fsync status=none`);
          }
          // The data of both may be in one request, which the kernel queues.
          bash(`sync -f ${folder}`);
        });
      }
    } finally {
      await filtered.agent.stop();
    }
    bytes = bytesOf(filtered.agent.dataFolder);
  }, 120_000);

  test.each(LEFT_OUT.map(({ filter }, i) => ({ filter, i })))('$filter', ({ i }) => {
    expect([bytes.includes(`${folders[i]}/wanted`), bytes.includes(`${folders[i]}/secret-`)]).toEqual([true, false]);
    expect(bytes).not.toContain('secret-');
  });
});

const JOBS = times(30);
/** A flood begins before the jobs and ends after them: each takes longer than this beside it. */
const JOB_S = 0.05;
const AS_NOBODY = 'os.setgid(65534); os.setuid(65534)';

/** Programs of an unprivileged user that run for some seconds: `going_on()` says whether they continue. */
const FLOODS: Readonly<Record<string, (folder: string) => string>> = {
  'markers from many processes': () => `
${AS_NOBODY}
for child in range(39):
    if os.fork() == 0: break
null = os.open('/dev/null', os.O_WRONLY)
while going_on(): mark(null)
`,
  'markers from many users of a user namespace': () => `
# What newuidmap does for a user whom /etc/subuid gives these.
made, mapped = os.pipe(), os.pipe()
owner = os.fork()
if owner:
    os.read(made[0], 1)
    open('/proc/%d/uid_map' % owner, 'w').write('0 100000 65536')
    os.write(mapped[1], b'x')
    os.wait()
    os._exit(0)
${AS_NOBODY}
ctypes.CDLL(None).unshare(0x10000000)
os.write(made[1], b'x')
os.read(mapped[0], 1)
for uid in range(1, 40):
    if os.fork() == 0:
        os.setuid(uid)
        break
null = os.open('/dev/null', os.O_WRONLY)
while going_on(): mark(null)
`,
  'names of files': (folder) => `
os.chmod('${folder}', 0o755)
os.mkdir('${folder}/nobody')
os.chown('${folder}/nobody', 65534, 65534)
${AS_NOBODY}
os.chdir('${folder}/nobody')
for depth in range(16):
    os.mkdir('d' * 250)
    os.chdir('d' * 250)
os.fork()
name = str(os.getpid())
file = os.open(name, os.O_WRONLY | os.O_CREAT)
while going_on():
    number += 1
    os.rename(name, '%d-%d' % (os.getpid(), number))
    name = '%d-%d' % (os.getpid(), number)
    os.write(file, b'x')
`,
};

test.each(Object.entries(FLOODS))(
  'a user that floods the agent with %s takes no owner from another user',
  async (_, flood) => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'jobs'));
    const program = `
import ctypes, os, time
end = time.time() + ${0.5 + JOBS * JOB_S}
number = 0
def going_on(): return time.time() < end
def mark(null):
    global number
    number += 1
    os.write(null, b'KREPLAY1 txn=flood-%d-%d span=%s' % (os.getpid(), number, b'f' * 900))
${flood(folder)}`;
    const recorded = await record(() => {
      const job = `(printf "KREPLAY1 txn=job-$i" > /dev/null; echo x > ${folder}/jobs/job-$i)`;
      bash(`python3 -c "$flood" & sleep 0.5; for i in $(seq ${JOBS}); do ${job}; sleep ${JOB_S}; done; wait`, {
        env: { ...process.env, flood: program },
        timeout: 100_000,
      });
    });
    const jobs = recorded.writes({ comms: ['bash'] }).filter(({ result }) => result === 2n);
    const owners = ownersIn(recorded, join(folder, 'jobs'));
    expect(Object.entries(owners).filter(([name, [owner]]) => owner !== name)).toEqual([]);
    expect(jobs.filter(({ file, service_name }) => file === null || service_name !== 'bash')).toEqual([]);
    // The agent cannot take all events on two CPUs: what it did not take, of the flood or of others, is counted.
    const lost = recorded.losses().reduce((sum, { lost: count }) => sum + count, 0);
    expect(lost).toBeGreaterThan(JOBS - Object.keys(owners).length);
    expect(Object.keys(owners).length).toBeGreaterThan(JOBS / 2);
  },
  120_000,
);

test('an owner that waits while another user sets more markers than the agent keeps is still known', async () => {
  const folder = temporaryFolder();
  const flood = `
import os, time
os.setuid(65534)
null = os.open('/dev/null', os.O_WRONLY)
for number in range(${2 * CONTEXTS_MAX}):
    os.write(null, b'KREPLAY1 txn=flood-%d' % number)
    # Slow enough that few are refused.
    if number % 500 == 0: time.sleep(0.02)
`;
  const recorded = await record(() => {
    const job = `(printf "KREPLAY1 txn=waiter" > /dev/null; python3 -c "$flood"; sleep 1; echo x > ${folder}/waiter)`;
    bash(job, { env: { ...process.env, flood }, timeout: 100_000 });
  });
  const lost = recorded.losses().reduce((sum, { lost: count }) => sum + count, 0);
  // At least three quarters of the flood got into the agent's table, half more than what that keeps.
  expect(lost).toBeLessThan(CONTEXTS_MAX / 2);
  expect(ownersIn(recorded, folder)).toEqual({ waiter: ['waiter'] });
}, 120_000);
