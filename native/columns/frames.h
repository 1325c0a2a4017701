#pragma once

#include <cstddef>
#include <cstdint>

/* Zstandard frames (RFC 8878). A thread keeps its context: creating one takes longer than compressing a segment. */

/* Writes one frame; returns its size in bytes, 0 when it needs more than `room`. */
size_t compress_frame(const uint8_t *input, size_t bytes, uint8_t *output, size_t room);

/* Fills exactly `bytes` of output; false unless the input is one frame of that content size in the format of RFC 8878.
 */
bool decompress_frame(const uint8_t *input, size_t input_bytes, uint8_t *output, size_t bytes);
