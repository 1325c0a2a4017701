/* A library, or a part of the program, that has OpenTelemetry's thread-local variable. */
#pragma once

extern __thread void *otel_thread_ctx_v1;

/* Of the thread that calls it. */
typedef void **thread_context_address(void);
thread_context_address thread_context;
