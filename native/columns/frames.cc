#include "frames.h"

#include <cstring>
#include <memory>
#include <zstd.h>

namespace
{

constexpr int kLevel = 1;

template <typename Context, size_t (*release)(Context *)> struct Released {
	void operator()(Context *context) const
	{
		release(context);
	}
};

thread_local std::unique_ptr<ZSTD_CCtx, Released<ZSTD_CCtx, ZSTD_freeCCtx>> compressor;
thread_local std::unique_ptr<ZSTD_DCtx, Released<ZSTD_DCtx, ZSTD_freeDCtx>> decompressor;

bool is_frame(const uint8_t *input, size_t bytes)
{
	uint32_t magic;

	if (bytes < sizeof(magic))
		return false;
	std::memcpy(&magic, input, sizeof(magic));
	return magic == ZSTD_MAGICNUMBER && ZSTD_findFrameCompressedSize(input, bytes) == bytes;
}

} // namespace

size_t compress_frame(const uint8_t *input, size_t bytes, uint8_t *output, size_t room)
{
	if (!compressor)
		compressor.reset(ZSTD_createCCtx());
	if (!compressor)
		return 0;
	const size_t written = ZSTD_compressCCtx(compressor.get(), output, room, input, bytes, kLevel);
	return ZSTD_isError(written) ? 0 : written;
}

bool decompress_frame(const uint8_t *input, size_t input_bytes, uint8_t *output, size_t bytes)
{
	if (!decompressor)
		decompressor.reset(ZSTD_createDCtx());
	/* The library also accepts several frames, skippable frames and the formats of its first versions. */
	if (!decompressor || !is_frame(input, input_bytes))
		return false;
	return ZSTD_decompressDCtx(decompressor.get(), output, bytes, input, input_bytes) == bytes;
}
