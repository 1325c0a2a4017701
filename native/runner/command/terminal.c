#include "command/terminal.h"

#include <signal.h>
#include <unistd.h>

bool terminal_is_ours(void)
{
	return isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

void terminal_give(pid_t group)
{
	tcsetpgrp(STDIN_FILENO, group);
}

void terminal_stop_job(void)
{
	terminal_give(getpgrp());
	kill(0, SIGSTOP);
}
