#include "report/steal.h"

#include <stdio.h>
#include <unistd.h>

#include "delay/clock.h"

uint64_t steal_ns(void)
{
	unsigned long long ticks = 0;
	FILE *file = fopen("/proc/stat", "re");

	if (!file)
		return 0;
	/* The columns are user nice system idle iowait irq softirq steal. */
	if (fscanf(file, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1)
		ticks = 0;
	fclose(file);
	return ticks * (NS_PER_S / sysconf(_SC_CLK_TCK));
}
