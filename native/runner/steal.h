#ifndef KREPLAY_RUNNER_STEAL_H
#define KREPLAY_RUNNER_STEAL_H

#include <stdint.h>

/* CPU time that the hypervisor gave to others since the machine started; 0 where that is not told. */
uint64_t steal_ns(void);

#endif
