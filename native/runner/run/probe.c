#include "run/run.h"

#include <stdio.h>

#include "command/signals.h"
#include "receive/calibrate.h"
#include "report/exit_codes.h"
#include "seccomp/notify.h"

static const char *text_of(bool value)
{
	return value ? "true" : "false";
}

int run_probe(void)
{
	const struct options options = {.spin_ns = SPIN_CHOSEN_BY_CPUS};
	struct child_work signals;
	struct calibration calibration;
	struct failure failure;
	unsigned action = SECCOMP_RET_USER_NOTIF;

	signals_take(&signals);
	const bool has_action = seccomp(SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
	const bool has_listener = calibrate(&calibration, run_spin_ns(&options), &signals, &failure);
	printf("{\"user_notif\":%s,\"wait_killable\":%s,\"sync_wake_up\":%s,\"pidfd_getfd\":%s,\"listener\":%s",
	       text_of(has_action), text_of(calibration.features.wait_killable),
	       text_of(calibration.features.sync_wake_up), text_of(calibration.features.pidfd_getfd),
	       text_of(has_listener));
	if (has_listener)
		printf(",\"floor_ns\":%llu,\"bias_ns\":%llu,\"sleep_p50_ns\":%llu,\"sleep_p99_ns\":%llu}\n",
		       (unsigned long long)calibration.floor_ns, (unsigned long long)calibration.bias_ns,
		       (unsigned long long)calibration.sleep_p50_ns, (unsigned long long)calibration.sleep_p99_ns);
	else
		printf(",\"reason\":\"%s\"}\n", failure.text);
	return has_listener ? 0 : EXIT_NOT_REPLAYABLE;
}
