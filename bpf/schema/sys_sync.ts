import { commonFields } from './common.ts';
import { defineRecord } from './define.ts';
import { file, label, s32 } from './kinds.ts';

/**
 * kreplay's own numbers for these calls, which are the same on every architecture; their values come from
 * arch/x86/entry/syscalls/syscall_64.tbl.
 */
export const SYNC_SYSCALLS = {
  msync: 26,
  fsync: 74,
  fdatasync: 75,
  sync: 162,
  sync_file_range: 277,
  syncfs: 306,
} as const;

export const sysSync = defineRecord(
  'sys_sync',
  3,
  'one call that waits until data is on the disk, from entry to return',
  {
    ...commonFields,
    file_id: file('path of the file; null when not known, and for `sync` and `msync`, which are given none'),
    fd: s32('file descriptor; -1 for `sync` and `msync`'),
    syscall: label(SYNC_SYSCALLS, 'which call of the family'),
  },
);
