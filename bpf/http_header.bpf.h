/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finds the traceparent header in the first bytes of an HTTP/1 request. */
#ifndef KREPLAY_HTTP_HEADER_BPF_H
#define KREPLAY_HTTP_HEADER_BPF_H

#include "kernel_compat.bpf.h"

#define WINDOW_SIZE 2048
#define TRACEPARENT_SIZE 55

struct request_scratch {
	char text[WINDOW_SIZE + TRACEPARENT_SIZE + 9];
	__u32 size;
	/* Offset of the header's value. */
	__u32 value_at;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct request_scratch);
} http_scratch SEC(".maps");

/* Texts as little-endian numbers, in lower case. */
#define LOWER_CASE 0x2020202020202020ull
#define TRACEPAR 0x7261706563617274ull
#define RACEPARE 0x6572617065636172ull
#define ACEPAREN 0x6e65726170656361ull
#define CEPARENT 0x746e657261706563ull
#define CARRIAGE_RETURNS 0x0d0d0d0d0d0d0d0dull
#define LOW_BITS 0x0101010101010101ull
#define HIGH_BITS 0x8080808080808080ull
/* "\r\n\r\n" */
#define HEADERS_END 0x0a0d0a0du

static __always_inline bool is_method(__u64 text)
{
	__u32 first = text;

	return first == 0x20544547 /* "GET " */ || first == 0x54534f50 /* "POST" */ ||
	       first == 0x20545550 /* "PUT " */ || first == 0x44414548 /* "HEAD" */ ||
	       first == 0x454c4544 /* "DELE" */ || first == 0x43544150 /* "PATC" */ || first == 0x4954504f /* "OPTI" */;
}

/* Returns whether the header's name is at this offset of the request, and stores the offset of its value. */
__noinline int is_traceparent(__u32 at)
{
	__u32 zero = 0;
	struct request_scratch *scratch = bpf_map_lookup_elem(&http_scratch, &zero);
	char *text;

	if (!scratch || !at)
		return 0;
	/* The name has to follow a line feed. */
	at = (at - 1) & (WINDOW_SIZE - 1);
	barrier_var(at);
	text = &scratch->text[at & (WINDOW_SIZE - 1)];
	if (text[0] != '\n' || (*(__u64 *)&text[1] | LOWER_CASE) != TRACEPAR || (text[9] | 0x20) != 'e' ||
	    (text[10] | 0x20) != 'n' || (text[11] | 0x20) != 't' || text[12] != ':')
		return 0;
	scratch->value_at = at + 13 + (text[13] == ' ');
	return 1;
}

/* Returns whether the end of the headers begins at one of the first four bytes of the text. */
static __always_inline bool ends_headers(__u64 text)
{
	__u64 returns = text ^ CARRIAGE_RETURNS;

	/*
	 * Most texts have no carriage return, so no byte of `returns` is zero. The borrow of the subtraction reveals a
	 * zero byte.
	 */
	if (!((returns - LOW_BITS) & ~returns & HIGH_BITS))
		return false;
	return (__u32)text == HEADERS_END || (__u32)(text >> 8) == HEADERS_END || (__u32)(text >> 16) == HEADERS_END ||
	       (__u32)(text >> 24) == HEADERS_END;
}

/* Bytes that one step searches, in words of four bytes. */
#define STEP_SIZE (4 * WORDS_A_STEP)

/* The state of a search for the header. */
struct header_search {
	struct request_scratch *scratch;
	bool is_found;
};

/*
 * Searches the next STEP_SIZE bytes. Only every fourth offset is checked: in each header name, one of the constants
 * TRACEPAR to CEPARENT is at such an offset.
 */
static STEP(search_next_part, __u32 i, void *context)
{
	struct header_search *search = context;
	struct request_scratch *scratch = search->scratch;

	for (__u32 offset = 0; offset < STEP_SIZE; offset += 4) {
		__u32 at = (i * STEP_SIZE & (WINDOW_SIZE - 1)) + offset, name_at;
		__u64 text = *(__u64 *)&scratch->text[at], piece = text | LOWER_CASE;

		if (at >= scratch->size || ends_headers(text))
			return 1;
		if (piece == TRACEPAR)
			name_at = at;
		else if (piece == RACEPARE)
			name_at = at - 1;
		else if (piece == ACEPAREN)
			name_at = at - 2;
		else if (piece == CEPARENT)
			name_at = at - 3;
		else
			continue;
		if (is_traceparent(name_at)) {
			search->is_found = scratch->value_at + TRACEPARENT_SIZE <= scratch->size;
			return 1;
		}
	}
	return 0;
}

/*
 * Returns whether the text has the complete header, and stores the offset of its value. This is a global function, so
 * that it is verified once instead of at each of its calls.
 */
__noinline int find_traceparent(struct request_scratch *scratch)
{
	struct header_search search = {.scratch = scratch};

	if (!scratch)
		return 0;
	scratch->value_at = 0;
	REPEAT(WINDOW_SIZE / STEP_SIZE, search_next_part, &search);
	return search.is_found;
}

#endif
