#include "identify/threads.h"

#include <stdlib.h>
#include <string.h>

#include "delay/clock.h"
#include "identify/keys.h"

/* Names are read again after this time: threads rename themselves, and exec replaces programs. */
#define COMM_KNOWN_FOR_NS (500 * NS_PER_MS)

static struct thread *add(struct threads *threads, uint32_t tid)
{
	if (threads->count == THREADS_MAX) {
		threads->count = 0;
		table_clear(&threads->index_by_tid);
	}
	if (threads->count == threads->room) {
		const uint32_t room = threads->room ? threads->room * 2 : 64;
		struct thread *all = realloc(threads->all, room * sizeof(*all));

		if (!all)
			return NULL;
		threads->all = all;
		threads->room = room;
	}
	if (!table_put(&threads->index_by_tid, &tid, sizeof(tid), threads->count))
		return NULL;
	struct thread *thread = &threads->all[threads->count++];
	*thread = (struct thread){.tid = tid};
	return thread;
}

struct thread *threads_get(struct threads *threads, uint32_t tid, uint64_t now_ns)
{
	const uint32_t index = table_get(&threads->index_by_tid, &tid, sizeof(tid));
	struct thread *thread = index == NOT_IN_TABLE ? add(threads, tid) : &threads->all[index];

	if (thread &&
	    (now_ns >= thread->comm_until_ns || thread->comm_until_ns < threads->renew_ns + COMM_KNOWN_FOR_NS)) {
		char comm[COMM_MAX], role[KEY_MAX];

		thread->comm_until_ns = now_ns + COMM_KNOWN_FOR_NS;
		if (observe_comm(tid, comm)) {
			memcpy(thread->comm, comm, sizeof(comm));
			key_of_comm(comm, role);
			memcpy(thread->role, role, sizeof(thread->role));
		}
		/* The thread's number may have been reused by another process. */
		bool handles_signals;
		thread->process = observe_process_and_signals(tid, &handles_signals);
		threads->handles_signals |= handles_signals;
	}
	return thread;
}

bool thread_repeats(const struct thread *thread, const struct seccomp_data *data)
{
	return thread->data.nr == data->nr && thread->data.instruction_pointer == data->instruction_pointer &&
	       memcmp(thread->data.args, data->args, 3 * sizeof(*data->args)) == 0;
}
