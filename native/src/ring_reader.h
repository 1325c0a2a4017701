#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

/*
 * The consumer side of a BPF_MAP_TYPE_RINGBUF, over mmap. It is independent of Node.
 *
 * mmap of the map's fd, as kernel/bpf/ringbuf.c lays it out:
 *
 *   0          page         2*page                 2*page+size            2*page+2*size
 *   | consumer | producer   | data                 | the same data again  |
 *   | position | position   | (size: power of two) | not mapped           |
 *     read/write  read-only ------------------------
 *
 * The kernel offers the data twice, so that records never wrap. The second mapping is not used: it would count twice as
 * this process's memory, and drain() copies anyway, so it can copy a wrapped record in two halves.
 *
 * A record, and the frame that drain() writes for it (both take 8 + length, rounded up to 8):
 *
 *   ring:   | u32 length, bit 31 BUSY, bit 30 DISCARD | u32 page offset | payload | stale bytes |
 *   frame:  | u32 length                              | u32 zero        | payload | zeros       |
 */
class RingReader
{
      public:
	struct Drained {
		/* Bytes of frames written into the caller's buffer. */
		size_t bytes;
		/* If not 0, the first record needs a buffer of this size; nothing was written and the record stays. */
		size_t required;
		/* A record has an impossible length: another reader moves this ring's consumer position. */
		bool corrupt;
	};

	/* Maps the ring. Returns nullptr and sets *error to an errno value on failure. */
	static std::unique_ptr<RingReader> open(int map_fd, int *error);
	/*
	 * Creates a ring of at least this size and maps it. The reader keeps the ring's descriptor, so that /proc shows
	 * the ring's memory as the process's. Returns nullptr and sets *error to an errno value on failure.
	 */
	static std::unique_ptr<RingReader> create(const char *name, uint32_t size_bytes, int *error);
	~RingReader();
	RingReader(const RingReader &) = delete;
	RingReader &operator=(const RingReader &) = delete;

	Drained drain(uint8_t *into, size_t capacity) noexcept;
	uint64_t pending_bytes() noexcept;
	/* The most bytes that drain() or pending_bytes() found pending since the last call. */
	uint64_t take_peak_bytes() noexcept;
	/* All bytes that were ever moved out of the ring. */
	uint64_t consumed_bytes() const noexcept;
	/* Descriptor of the ring's map. */
	int map_fd() const noexcept
	{
		return map_fd_;
	}
	uint32_t size_bytes() const noexcept
	{
		return size_bytes_;
	}

      private:
	RingReader() = default;

	uint64_t *consumer_position_ = nullptr;
	const uint64_t *producer_position_ = nullptr;
	const uint8_t *data_ = nullptr;
	uint32_t size_bytes_ = 0;
	uint64_t peak_bytes_ = 0;
	size_t page_bytes_ = 0;
	int map_fd_ = -1;
	/* Whether the ring was created here. */
	bool owns_fd_ = false;
};
