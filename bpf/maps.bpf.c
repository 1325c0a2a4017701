/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Defines the maps and variables that several hooks share. */
#include "bio.bpf.h"
#include "budget.bpf.h"
#include "context.bpf.h"
#include "filter.bpf.h"
#include "owner.bpf.h"

const volatile __u32 agent_tgid = 0;
const volatile __u32 cgroup_hierarchy = CGROUP_V2;
const volatile __u32 flush_sequence_flag = 0;
const volatile bool programs_are_preempted = false;
const volatile bool marker_layer = true;
const volatile bool environment_layer = true;
const volatile bool dirty_page_layer = true;
const volatile bool block_cgroup_layer = true;
const volatile bool http_layer = false;
const volatile bool otel_layer = false;
__u32 process_contexts_used = 0;

struct task_state_map task_states SEC(".maps");
struct loss_map losses SEC(".maps");
struct id_map next_ids SEC(".maps");
struct event_ring_map events SEC(".maps");
struct definition_ring_map definitions SEC(".maps");
struct definition_use_map definition_uses SEC(".maps");
struct dirty_page_map dirty_pages SEC(".maps");
struct queued_page_map queued_pages SEC(".maps");
struct dirty_with_map dirty_with SEC(".maps");
struct journal_owners_map journal_owners SEC(".maps");
struct bio_owner_map bio_owners SEC(".maps");
struct otel_process_map otel_processes SEC(".maps");
struct otel_in_use_map otel_in_use SEC(".maps");
struct otel_thread_map otel_threads SEC(".maps");
struct filter_settings_map filter_settings SEC(".maps");
struct filter_pid_map filter_pids SEC(".maps");
struct filter_comm_map filter_comms SEC(".maps");
struct filter_process_map filter_processes SEC(".maps");
struct context_scratch_map context_scratch SEC(".maps");

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#ifdef WITH_RDONLY_CAST
extern void bpf_preempt_disable(void) __weak __ksym;
extern void bpf_preempt_enable(void) __weak __ksym;

__hidden __noinline int disable_preemption(void)
{
	if (programs_are_preempted)
		bpf_preempt_disable();
	return 0;
}

__hidden __noinline int enable_preemption(void)
{
	if (programs_are_preempted)
		bpf_preempt_enable();
	return 0;
}
#endif
