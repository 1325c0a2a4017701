#include "thread_context.h"

__attribute__((visibility("default"))) void **thread_context(void)
{
	return &otel_thread_ctx_v1;
}
