#ifndef KREPLAY_RUNNER_RELAY_H
#define KREPLAY_RUNNER_RELAY_H

#include <stdatomic.h>
#include <stdint.h>

#define TAIL_BYTES 16384

enum relayed {
	/* The output is a file or a terminal, which the command writes to directly. */
	RELAYED_NONE,
	RELAYED_ALONE,
	/* Standard error is the same pipe as standard output. */
	RELAYED_TOGETHER,
};

/* The last bytes that went through an output. `kreplay run` reads this layout: daemon/run/execution/last_lines.ts. */
struct tail {
	uint32_t relayed; /* a value of enum relayed */
	_Atomic uint32_t is_busy;
	/* Number of bytes that the relay has read. Byte n, counted from 0, is at bytes[n % TAIL_BYTES]. */
	_Atomic uint64_t bytes_passed;
	/* Number of these bytes that were written to the output. */
	_Atomic uint64_t bytes_written;
	uint8_t bytes[TAIL_BYTES];
};

/* The tails of standard output and standard error. */
struct tails {
	struct tail outputs[2];
};

/*
 * Replaces each output of this process that is a pipe or a socket by a new pipe. Starts a relay process for it, which
 * copies from the pipe to the output and keeps the last bytes in the file. If that is not possible, as on a full disk,
 * returns NULL and leaves the outputs unchanged.
 *
 *   command -> pipe -> relay -> pipe or socket of the output
 *
 * The relay ends with the last writer, so that processes that outlive the run can still write. It keeps the order of
 * two outputs that are one pipe. It also ends when nobody reads the output any more, so that the command's next write
 * fails as without a relay. While the output is full, the command waits as without a relay, but up to the size of a
 * pipe later.
 */
struct tails *relay_start(const char *path);

/*
 * Waits until everything written so far has reached the outputs. Without a relay, the command itself would have waited
 * for a slow reader. The last lines are complete only after this wait.
 */
void relay_drain(struct tails *tails);

#endif
