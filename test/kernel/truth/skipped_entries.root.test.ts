/**
 * Calls whose entry the kernel skipped, as it may where programs are preempted: what they wrote is not recorded, but a
 * label that they set or took away counts. A call that was denied returns without an entry too, and sets no label. Calls
 * whose end it skipped are counted, also the last one of a thread.
 */
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BpfObject, btfTypeExists, type ProgramInfo } from 'libbpf-ts';
import { findCgroups } from '../../../agent/attribution/cgroups.ts';
import { applyLayers, listLayerStates } from '../../../agent/capture/layers.ts';
import { isRun } from '../../../agent/capture/probes.ts';
import { FILTER_FLAGS, FILTER_VERDICTS } from '../../../bpf/schema/filter.ts';
import { KERNEL_LOSS_CAUSES, LOSS_CAUSES_MAX, LOSS_TYPES_MAX } from '../../../bpf/schema/losses.ts';
import { sysWrite } from '../../../bpf/schema/sys_write.ts';
import { u32 } from '../../native/compile.ts';
import { ROOT, run } from '../programs.ts';

/** seccomp makes all writes to one descriptor fail with EPERM. */
const PROGRAM = `
import ctypes, os, struct
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
DENIED = 99
steps = [(LOAD, 0, 0, 0), (EQUAL, 0, 3, 1), (LOAD, 0, 0, 16), (EQUAL, 0, 1, DENIED),
         (RETURN, 0, 0, 0x50001), (RETURN, 0, 0, 0x7fff0000)]
filter = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in steps))
libc = ctypes.CDLL(None)
null = os.open('/dev/null', os.O_WRONLY)
os.dup2(null, DENIED)
assert not libc.prctl(38, 1, 0, 0, 0)
assert not libc.prctl(22, 2, struct.pack('HxxxxxxQ', len(steps), ctypes.addressof(filter)), 0, 0)
os.write(null, b'KREPLAY1 txn=caught-up')
try:
    os.write(DENIED, b'KREPLAY1 txn=denied')
    raise SystemExit('it was not denied')
except PermissionError:
    pass
os.writev(null, [b'KREPLAY1 txn=by-vector'])
`;

const canPreempt = btfTypeExists('bpf_rdonly_cast') && btfTypeExists('bpf_preempt_disable');
if (!canPreempt) console.warn('skipped: this kernel has no bpf_preempt_disable()');

(canPreempt ? test : test.skip)('a marker whose entry was skipped counts, and a denied one does not', () => {
  const object = BpfObject.open(join(ROOT, 'build/bpf/kreplay_cast.bpf.o'));
  try {
    object.setReadOnly('agent_tgid', process.pid);
    applyLayers(object, listLayerStates([], findCgroups().hierarchy));
    object.setReadOnly('programs_are_preempted', true);
    object.load();
    const isAttached = ({ name, section, autoload }: ProgramInfo) =>
      autoload && name !== 'call_enter' && !isRun(section);
    for (const { name } of object.programs.filter(isAttached)) object.attach(name);
    // The program is not passed as an argument: arguments are among the definitions.
    run('/usr/bin/python3', ['-'], { input: PROGRAM });
    object.detach();
    const definitions = object.ring('definitions');
    const buffer = new Uint8Array(definitions.sizeBytes);
    const text = Buffer.from(buffer.subarray(0, definitions.drain(buffer))).toString('latin1');
    const said = ['caught-up', 'denied', 'by-vector'].filter((name) => text.includes(`KREPLAY1 txn=${name}`));
    expect(said).toEqual(['caught-up', 'by-vector']);
  } finally {
    object.close();
  }
});

test('a call whose end was skipped is counted, also the last one of a thread', () => {
  const object = BpfObject.open(join(ROOT, 'build/bpf/kreplay_cast.bpf.o'));
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-kernel-'));
  try {
    object.setReadOnly('agent_tgid', process.pid);
    applyLayers(object, listLayerStates([], findCgroups().hierarchy));
    object.load();
    // A name that no other program of this machine has.
    const name = `dd-${process.pid}`;
    const { FILTER_COMMS, FILTER_ONLY_COMMS } = FILTER_FLAGS;
    object.map('filter_settings').set(u32(0), u32(0, 0, 0, FILTER_COMMS | FILTER_ONLY_COMMS));
    object.map('filter_comms').set(Buffer.from(name.padEnd(16, '\0')), Uint8Array.of(FILTER_VERDICTS.FILTER_ONLY));
    const isAttached = ({ name, section, autoload }: ProgramInfo) =>
      autoload && name !== 'call_exit' && !isRun(section);
    for (const program of object.programs.filter(isAttached)) object.attach(program.name);
    symlinkSync('/bin/dd', join(folder, name));
    for (const count of [1, 7]) {
      const before = missed(object);
      run(join(folder, name), ['if=/dev/zero', 'of=/dev/null', 'bs=1', `count=${count}`, 'status=none']);
      expect(missed(object) - before).toBe(BigInt(count));
    }
  } finally {
    object.close();
    rmSync(folder, { recursive: true });
  }
});

/** Number of writes that were lost because their end was not seen, on all CPUs. */
function missed(object: BpfObject): bigint {
  const counters = new BigUint64Array(object.map('losses').get(u32(0))!.buffer);
  const at = sysWrite.id * LOSS_CAUSES_MAX + KERNEL_LOSS_CAUSES.LOSS_END_MISSED;
  return counters
    .filter((_, i) => i % (LOSS_TYPES_MAX * LOSS_CAUSES_MAX) === at)
    .reduce((sum, count) => sum + count, 0n);
}
