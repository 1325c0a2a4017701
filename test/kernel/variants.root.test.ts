// The BPF programs come in two builds, and a kernel runs only one of them: both have to load and to capture the same.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BpfObject, btfTypeExists } from 'libbpf-ts';
import { findCgroups } from '../../agent/attribution/cgroups.ts';
import { applyLayers, listLayerStates } from '../../agent/capture/layers.ts';
import { BLOCK_OPERATIONS } from '../../bpf/schema/block_io.ts';
import { createDecoder } from '../../bpf/schema/decoder.ts';
import { loopDevice } from './loop_device.ts';
import { bash, ROOT } from './programs.ts';

const WRITES = 499;
const RING_BYTES = 16 << 20;
/** The kernel checks some ten million instructions in a second, while the agent starts. */
const CHECKED_INSTRUCTIONS_MAX = 800_000;

/** Sums `verified_insns` of the BPF programs that this process has open: bpf_prog_show_fdinfo(), kernel/bpf/syscall.c. */
function checkedInstructions(): number {
  const files = readdirSync('/proc/self/fdinfo');
  const counts = files.map((fd) => {
    try {
      return Number(/^verified_insns:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1] ?? 0);
    } catch {
      return 0; // The descriptor of the folder itself is closed.
    }
  });
  return counts.reduce((sum, count) => sum + count, 0);
}

test.each(['kreplay', 'kreplay_cast'])('%s captures writes and block requests', (variant) => {
  if (variant === 'kreplay_cast' && !btfTypeExists('bpf_rdonly_cast')) {
    console.warn('skipped: this kernel has no bpf_rdonly_cast()');
    return;
  }
  const disk = loopDevice();
  const object = BpfObject.open(join(ROOT, `build/bpf/${variant}.bpf.o`));
  try {
    object.setReadOnly('agent_tgid', process.pid);
    applyLayers(object, listLayerStates([], findCgroups().hierarchy));
    // A kernel that has the cast may refuse the pointer that the other build passes to a helper there: HOLD_TASK().
    if (variant === 'kreplay' && btfTypeExists('bpf_rdonly_cast')) object.setAutoload('task_exit', false);
    object.load();
    const [ring] = object.rings('events', 1, RING_BYTES);
    const checked = checkedInstructions();
    expect(checked).toBeGreaterThan(10_000);
    expect(checked).toBeLessThan(CHECKED_INSTRUCTIONS_MAX);
    object.attach();
    bash(`dd if=/dev/zero of=${disk.path} bs=4k count=${WRITES} oflag=direct status=none`);
    object.detach();
    const buffer = new Uint8Array(RING_BYTES);
    const filled = ring!.drain(buffer);
    const decoder = createDecoder();
    const { block } = decoder.decoded;
    let [writes, requests] = [0, 0];
    for (let at = 0; at < filled; ) {
      at = decoder.decode(buffer, at, filled, () => true);
      const requested = block.columns.get('sys_write.bytes_requested')! as BigUint64Array;
      writes += requested.subarray(0, block.typeCounts[1]).filter((bytes) => bytes === 4096n).length;
      const operations = block.columns.get('block_io.operation')! as Uint16Array;
      requests += operations.subarray(0, block.typeCounts[2]).filter((each) => each === BLOCK_OPERATIONS.write).length;
    }
    expect(writes).toBeGreaterThanOrEqual(WRITES);
    expect(requests).toBeGreaterThanOrEqual(WRITES);
    // Every file that was written to has a definition, the loop device among them.
    const definitions = object.ring('file_definitions');
    const text = new Uint8Array(definitions.sizeBytes);
    const described = Buffer.from(text.subarray(0, definitions.drain(text))).toString('latin1');
    expect(described).toContain(`${disk.name}\0dev\0`);
  } finally {
    object.close();
    disk.remove();
  }
});
