#include "report/failure.h"

#include <stdarg.h>
#include <stdio.h>

bool fail(struct failure *failure, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vsnprintf(failure->text, sizeof(failure->text), format, values);
	va_end(values);
	return false;
}
