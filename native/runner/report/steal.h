#ifndef KREPLAY_RUNNER_STEAL_H
#define KREPLAY_RUNNER_STEAL_H

#include <stdint.h>

/* Returns the CPU time that the hypervisor gave to others since the machine started; 0 if it is not reported. */
uint64_t steal_ns(void);

#endif
