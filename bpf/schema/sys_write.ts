import { commonFields } from './common.ts';
import { defineRecord } from './define.ts';
import { file, label, optional_u64, s32 } from './kinds.ts';

/**
 * kreplay's own numbers for these calls, which are the same on every architecture; their values come from
 * arch/x86/entry/syscalls/syscall_64.tbl.
 */
export const WRITE_SYSCALLS = { write: 1, pwrite64: 18, writev: 20, pwritev: 296, pwritev2: 328 } as const;

export const sysWrite = defineRecord('sys_write', 1, 'one call of the write family, from entry to return', {
  ...commonFields,
  file_id: file('path, `socket:[inode]`, `pipe:[inode]` or `anon_inode:name`; null when not known'),
  bytes_requested: optional_u64('bytes that the caller asked to write; null when its iovec could not be read'),
  fd: s32('file descriptor'),
  syscall: label(WRITE_SYSCALLS, 'which call of the family'),
});
