/* Interface of a library, or a part of the program, that has OpenTelemetry's thread-local variable. */
#pragma once

extern __thread void *otel_thread_ctx_v1;

/* Returns the address of the calling thread's variable. */
typedef void **thread_context_address(void);
thread_context_address thread_context;
