/**
 * A block's columns as the synthetic events fill them: 64-bit ones as pairs of words, so that a row needs no BigInt.
 */
import type { Block } from '../../bpf/schema/block.ts';

export type StreamColumns = ReturnType<typeof streamColumns>;

export function streamColumns({ columns }: Block) {
  const small = (name: string) => columns.get(name)! as Uint8Array | Uint16Array | Uint32Array | Int32Array;
  const words = (name: string) => new Uint32Array(columns.get(name)!.buffer as ArrayBuffer);
  return {
    type: small('event_type'),
    cpu: small('cpu'),
    timestamp: words('timestamp_ns'),
    duration: words('duration_ns'),
    context: small('context'),
    source: small('context_source'),
    quality: small('context_quality'),
    service: small('service'),
    pid: small('pid'),
    tid: small('tid'),
    comm: small('comm'),
    result: words('result'),
    file: small('sys_write.file'),
    bytesRequested: words('sys_write.bytes_requested'),
    fd: small('sys_write.fd'),
    syscall: small('sys_write.syscall'),
    syncFile: small('sys_sync.file'),
    syncFd: small('sys_sync.fd'),
    syncSyscall: small('sys_sync.syscall'),
    sector: words('block_io.sector'),
    bytes: words('block_io.bytes'),
    queue: words('block_io.queue_ns'),
    operation: small('block_io.operation'),
    device: small('block_io.device'),
    originService: small('block_io.origins_0_service'),
    originContext: small('block_io.origins_0_context'),
    originBytes: words('block_io.origins_0_bytes'),
  };
}

const WORD = 2 ** 32;

/** `value` is an integer from -2^53 to 2^53. */
export function setWords(words: Uint32Array, row: number, value: number): void {
  const high = Math.floor(value / WORD);
  words[row * 2] = value - high * WORD;
  words[row * 2 + 1] = high;
}
