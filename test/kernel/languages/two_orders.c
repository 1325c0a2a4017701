/* Writes for two orders, and once for neither. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>

static int null, out;

static void work(const char *order, const char *text)
{
	dprintf(null, "KREPLAY1 txn=%s\n", order);
	dprintf(out, "%s", text);
}

int main(int count, char **arguments)
{
	if (count != 2)
		return 2;
	out = open(arguments[1], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	work("order-8812", "first\n");
	work("order-8813", "second\n");
	dprintf(null, "KREPLAY1 end\n");
	dprintf(out, "neither\n");
	return 0;
}
