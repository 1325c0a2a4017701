/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The only translation unit of the programs. Each line includes one family of hooks. */
#include "task.bpf.h"
#include "http_process.bpf.h"
#include "http.bpf.h"
#include "syscall.bpf.h"
#include "dirty_page.bpf.h"
#include "iomap_write.bpf.h"
#include "journal.bpf.h"
#include "bio.bpf.h"
#include "block_io.bpf.h"
#include "in_progress.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
