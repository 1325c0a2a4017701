/**
 * Requests under way are stored by their connection, to notice that another thread answers one. A request that cannot
 * be stored has no owner, and the entry of an exiting thread is freed.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { BpfObject, btfTypeExists, type RingReader } from 'libbpf-ts';
import { findCgroups } from '../../agent/attribution/cgroups.ts';
import { CONTEXT_OFFSET, readU64At } from '../../agent/attribution/fill.ts';
import { applyLayers, listLayerStates } from '../../agent/capture/layers.ts';
import { createRequestReading } from '../../agent/capture/probes.ts';
import { createLossCounters } from '../../agent/capture/recorder.ts';
import { createDecoder } from '../../bpf/schema/decoder.ts';
import { contextDefinition } from '../../bpf/schema/definitions.ts';
import { isMissedEnd } from './missed_ends.ts';
import { ROOT } from './programs.ts';

/** The first child leaves a request unanswered; so does the second one meanwhile, and the third one after its end. */
const PROGRAM = `
import os, socket, sys
TRACEPARENT = "traceparent: 00-" + "4b" * 16 + "-" + "7a" * 8 + "-01"
REQUEST = ("GET / HTTP/1.1\\r\\nHost: somewhere\\r\\n" + TRACEPARENT + "\\r\\n\\r\\n").encode()
def child(size, wait=None):
    client, server = socket.socketpair()
    began, begin = os.pipe()
    pid = os.fork()
    if pid == 0:
        client.send(REQUEST)
        server.recv(4096)
        os.write(null, b"x" * size)
        os.write(begin, b".")
        if wait: os.read(wait, 1)
        os._exit(0)
    os.read(began, 1)
    return pid
null = os.open("/dev/null", os.O_WRONLY)
print("ready", flush=True)
sys.stdin.readline()
wait, end = os.pipe()
first = child(2001, wait)
os.waitpid(child(2002), 0)
os.write(end, b".")
os.waitpid(first, 0)
os.waitpid(child(2003), 0)
`;

const RING_BYTES = 16 << 20;
const FOREVER_NS = 2 ** 62;

/** Whether the write of each size has a context. */
function ownedBySize(ring: RingReader): Record<number, boolean> {
  const buffer = new Uint8Array(ring.sizeBytes);
  const words = new Uint32Array(buffer.buffer);
  const filled = ring.drain(buffer);
  const decoder = createDecoder();
  const owned: Record<number, boolean> = {};
  for (let at = 0; at < filled; ) {
    at = decoder.decode(buffer, at, filled, () => true);
    const { block, typeRecordOffsets } = decoder.decoded;
    const requested = block.columns.get('sys_write.bytes_requested')! as BigUint64Array;
    for (let i = 0; i < block.typeCounts[1]!; i++) {
      const size = Number(requested[i]);
      if (size > 2000 && size < 2010) owned[size] = readU64At(words, typeRecordOffsets[1]![i]! + CONTEXT_OFFSET) !== 0;
    }
  }
  return owned;
}

test('a request whose connection cannot be remembered has no owner, and is counted', async () => {
  const variant = btfTypeExists('bpf_rdonly_cast') ? 'kreplay_cast' : 'kreplay';
  const object = BpfObject.open(join(ROOT, `build/bpf/${variant}.bpf.o`));
  try {
    object.setReadOnly('agent_tgid', process.pid);
    applyLayers(object, listLayerStates([], findCgroups().hierarchy));
    object.setMaxEntries('http_connections', 1);
    object.load();
    const [ring] = object.rings('events', 1, RING_BYTES);
    object.attach();
    const losses = createLossCounters(object.map('losses'));
    const program = spawn('/usr/bin/python3', ['-c', PROGRAM], { stdio: ['pipe', 'pipe', 'inherit'] });
    const ended = once(program, 'exit');
    await once(program.stdout, 'data');
    createRequestReading(object.map('http_processes')).watch(program.pid!, FOREVER_NS, undefined);
    program.stdin.end('go\n');
    expect((await ended)[0]).toBe(0);
    object.detach();
    expect(ownedBySize(ring!)).toEqual({ 2001: true, 2002: false, 2003: true });
    expect(losses.take().losses.filter((loss) => !isMissedEnd(loss))).toEqual([
      { cause: 'definition_lost', eventType: null, count: 1, recordType: contextDefinition.id },
    ]);
    expect([...object.map('http_connections').keys()]).toEqual([]);
  } finally {
    object.close();
  }
});
