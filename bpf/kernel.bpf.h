/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Declares the fields of kernel structures that the hooks read. The offsets here do not matter: because of
 * `preserve_access_index`, libbpf replaces them at load with the running kernel's offsets, which it reads from the
 * kernel's BTF.
 */
#ifndef KREPLAY_KERNEL_BPF_H
#define KREPLAY_KERNEL_BPF_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long di, si, dx, bx, cx, r8, r10, orig_ax;
};

struct qstr {
	__u64 hash_len;
	const unsigned char *name;
};

struct hlist_bl_node {
	struct hlist_bl_node *next, **pprev;
};

struct super_block {
	unsigned long s_magic;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	struct address_space *i_mapping;
	unsigned long i_ino;
	__u32 i_rdev;
};

struct dentry {
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct address_space {
	struct inode *host;
	struct {
		int counter;
	} i_mmap_writable;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	struct address_space *f_mapping;
	unsigned int f_mode;
	const struct cred *f_cred;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct mm_struct {
	unsigned long start_stack, arg_start, arg_end, env_start, env_end;
	struct file *exe_file;
};

struct kernfs_node {
	__u64 id;
	const char *name;
	/* The field is called `parent` before 633488947ef6 (6.15). */
	struct kernfs_node *__parent;
};

struct kernfs_node___parent {
	struct kernfs_node *parent;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
};

enum cgroup_subsys_id {
	memory_cgrp_id,
	pids_cgrp_id,
};

struct thread_info {
	__u32 status;
};

struct thread_struct {
	unsigned long fsbase;
};

struct signal_struct {
	int nr_threads;
	/* Exists since 60700e38fb68 (5.17): see executor_of(). */
	struct task_struct *group_exec_task;
};

struct kuid {
	__u32 val;
};

struct user_namespace {
	struct user_namespace *parent;
	int level;
	struct kuid owner;
};

struct cred {
	struct user_namespace *user_ns;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	struct mm_struct *mm;
	__u32 pid, tgid;
	struct task_struct *group_leader;
	__u64 self_exec_id;
	__u64 start_boottime;
	char comm[16];
	struct files_struct *files;
	struct signal_struct *signal;
	const struct cred *real_cred;
	struct css_set *cgroups;
	struct thread_struct thread;
};

struct gendisk {
	char disk_name[32];
};

struct request_queue {
	struct gendisk *disk;
};

struct page {
	struct address_space *mapping;
	/* Used on kernels whose struct folio has no index: see folio_index(). */
	unsigned long index;
	/* A kernel has one of the next two fields: see folio_of(). */
	unsigned long compound_head;
	unsigned long compound_info;
	unsigned long private;
};

struct iomap {
	__u64 length;
};

struct iomap_iter {
	struct inode *inode;
	__u64 pos;
	__u64 len;
	unsigned int flags;
	struct iomap iomap;
};

struct folio {
	unsigned long index;
	unsigned long _flags_1;
};

struct buffer_head {
	unsigned long b_state;
	/* A kernel has one or both of the next two fields: see buffer_folio(). */
	struct page *b_page;
	struct folio *b_folio;
	__u64 b_size;
	char *b_data;
};

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_len;
	unsigned int bv_offset;
};

struct bvec_iter {
	__u64 bi_sector;
	unsigned int bi_size;
	unsigned int bi_idx;
	/* A kernel has one of the next two fields: see bytes_done_in_vector(). */
	unsigned int bi_bvec_done;
	unsigned int bi_offset;
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct block_device {
	__u32 bd_dev;
	struct gendisk *bd_disk;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	unsigned short bi_flags;
	struct bvec_iter bi_iter;
	struct blkcg_gq *bi_blkg;
	void *bi_private;
	struct bio_vec *bi_io_vec;
};

struct transaction_s {
	__u32 t_tid;
	__s64 t_start_time;
};

struct journal_s {
	struct block_device *j_fs_dev;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int rq_flags;
	unsigned int __data_len;
	__u64 __sector;
	struct bio *bio;
	/* Reference count. Its type differs before 5.16, but is always a struct of one number. */
	struct {
		int counter;
	} ref;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	void *map;
	void *key;
	void *value;
};

enum pageflags {
	PG_dirty,
	PG_head,
	PG_private,
	PG_swapbacked,
	PG_writeback,
};

#pragma clang attribute pop

/* include/linux/sched.h, include/uapi/linux/sched.h, arch/x86/include/asm/thread_info.h */
#define PF_MEMALLOC 0x00000800
#define PF_KTHREAD 0x00200000
#define CLONE_THREAD 0x00010000
#define TS_COMPAT 0x0002

/* include/uapi/linux/mman.h, include/uapi/asm-generic/mman-common.h, include/linux/fs.h */
#define MAP_SHARED 0x01
#define MAP_SHARED_VALIDATE 0x03
#define MAP_TYPE 0x0f
#define MAP_ANONYMOUS 0x20
#define FMODE_WRITE 0x2

/* include/uapi/linux/magic.h, include/uapi/linux/btrfs_tree.h: BTRFS_BTREE_INODE_OBJECTID */
#define BTRFS_SUPER_MAGIC 0x9123683e
#define BTRFS_TREE_INODE 1

/*
 * include/linux/iomap.h: IOMAP_WRITE is the flag of a write. IOMAP_KIND adds the flags of operations that do not write
 * a caller's data through the page cache: zeroing, reports, faults, direct I/O, unsharing of blocks, and files without
 * page cache.
 */
#define IOMAP_WRITE (1u << 0)
#define IOMAP_KIND (IOMAP_WRITE | 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 7 | 1u << 8)

/* include/linux/buffer_head.h */
#define BH_DIRTY (1ul << 1)

/*
 * include/linux/blk_types.h: this bit is BIO_PAGE_PINNED, and BIO_NO_PAGE_REF before a7e689dd1c06 (6.5). Both are set
 * only for direct I/O, but not for all of it: BIO_PAGE_PINNED only for user memory, BIO_NO_PAGE_REF only for an
 * iterator over pages, such as io_uring's registered buffers.
 */
#define BIO_DIRECT (1u << 0)

/*
 * include/linux/page-flags.h: PAGE_MAPPING_FLAGS is set on pages that belong to no file, PAGE_MAPPING_ANON on anonymous
 * pages.
 */
#define PAGE_MAPPING_FLAGS 3
#define PAGE_MAPPING_ANON 1

/* arch/x86/include/asm/page_types.h */
#define PAGE_SIZE 4096

/* include/uapi/linux/stat.h */
#define S_IFMT 0170000
#define S_IFCHR 0020000
#define S_IFIFO 0010000
#define S_IFSOCK 0140000
#define S_IFREG 0100000

/* arch/x86/entry/syscalls/syscall_32.tbl */
#define NR32_WRITE 4
#define NR32_MMAP 90
#define NR32_WRITEV 146
#define NR32_PWRITE64 181
#define NR32_MMAP2 192
#define NR32_PWRITEV 334
#define NR32_PWRITEV2 379

/* arch/x86/entry/syscalls/syscall_64.tbl */
#define NR_READ 0
#define NR_WRITE 1
#define NR_CLOSE 3
#define NR_MMAP 9
#define NR_PWRITE64 18
#define NR_READV 19
#define NR_WRITEV 20
#define NR_MSYNC 26
#define NR_SENDFILE 40
#define NR_SENDTO 44
#define NR_RECVFROM 45
#define NR_SENDMSG 46
#define NR_RECVMSG 47
#define NR_FSYNC 74
#define NR_FDATASYNC 75
#define NR_SYNC 162
#define NR_EPOLL_WAIT 232
#define NR_SYNC_FILE_RANGE 277
#define NR_EPOLL_PWAIT 281
#define NR_PWRITEV 296
#define NR_SYNCFS 306
#define NR_SENDMMSG 307
#define NR_PWRITEV2 328
#define NR_EPOLL_PWAIT2 441

#endif
