#pragma once

#include <cstddef>
#include <cstdint>

/* Zstandard frames (RFC 8878). A thread keeps its context: making one anew takes longer than compressing a segment. */

/* Writes one frame; returns its bytes, 0 when it needs more than `room`. */
size_t compress_frame(const uint8_t *input, size_t bytes, uint8_t *output, size_t room);

/* Fills exactly `bytes` of output; false when the input is not one frame of so many, or has one of before RFC 8878. */
bool decompress_frame(const uint8_t *input, size_t input_bytes, uint8_t *output, size_t bytes);
