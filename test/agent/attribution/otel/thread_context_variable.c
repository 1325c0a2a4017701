/* The variable among others: TLS_BYTES of them, aligned to TLS_ALIGN, so that its own offset is not a special value. */
#ifndef TLS_BYTES
#define TLS_BYTES 20
#endif
#ifndef TLS_ALIGN
#define TLS_ALIGN 1
#endif

__thread char thread_context_neighbour[TLS_BYTES] __attribute__((aligned(TLS_ALIGN))) = {1};
__attribute__((visibility("default"))) __thread void *otel_thread_ctx_v1;
