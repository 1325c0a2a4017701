#include "ring_reader.h"

#include <algorithm>
#include <bpf/bpf.h>
#include <cerrno>
#include <cstring>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

/* The kernel's positions are unsigned long; a 32-bit reader of a 64-bit kernel would tear them. */
static_assert(sizeof(long) == sizeof(uint64_t));

namespace
{

constexpr size_t kHeaderBytes = BPF_RINGBUF_HDR_SZ;
constexpr uint32_t kLengthMask = ~(uint32_t(BPF_RINGBUF_BUSY_BIT) | uint32_t(BPF_RINGBUF_DISCARD_BIT));

/*
 * BPF_F_RB_OVERWRITE (Linux 6.19, newer than the headers built against): with this flag the kernel drops the oldest
 * records itself and keeps a third position. Without regard to that position a reader would get torn records.
 */
constexpr uint32_t kOverwriteFlag = 1u << 19;

size_t frame_bytes(uint32_t length)
{
	return (kHeaderBytes + length + 7) & ~size_t(7);
}

/* The payload starts at data[at], and continues at data[0] where the ring ends. */
void write_frame(uint8_t *into, const uint8_t *data, size_t size, size_t at, uint32_t length, size_t frame)
{
	const uint64_t header = length;
	const size_t before_end = std::min<size_t>(length, size - at);
	/* The kernel does not clear the padding, and stale bytes of older records must not leak. The last 8 bytes are
	 * cleared first, with one fixed-size store. For an empty record they are the header. */
	memset(into + frame - 8, 0, 8);
	memcpy(into, &header, sizeof(header));
	memcpy(into + kHeaderBytes, data + at, before_end);
	memcpy(into + kHeaderBytes + before_end, data, length - before_end);
}

} // namespace

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "write_frame() stores the header in host order");

std::unique_ptr<RingReader> RingReader::open(int map_fd, int *error)
{
	bpf_map_info info = {};
	uint32_t info_bytes = sizeof(info);
	if (bpf_obj_get_info_by_fd(map_fd, &info, &info_bytes) < 0) {
		*error = errno;
		return nullptr;
	}
	if (info.type != BPF_MAP_TYPE_RINGBUF) {
		*error = EINVAL;
		return nullptr;
	}
	if (info.map_flags & kOverwriteFlag) {
		*error = EOPNOTSUPP;
		return nullptr;
	}

	const size_t page = sysconf(_SC_PAGE_SIZE);
	void *consumer = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);
	if (consumer == MAP_FAILED) {
		*error = errno;
		return nullptr;
	}
	/* ringbuf_map_mmap_kern() refuses a writable mapping of anything beyond the first page. */
	void *producer = mmap(nullptr, page + size_t(info.max_entries), PROT_READ, MAP_SHARED, map_fd, page);
	if (producer == MAP_FAILED) {
		*error = errno;
		munmap(consumer, page);
		return nullptr;
	}

	std::unique_ptr<RingReader> reader(new RingReader());
	reader->consumer_position_ = static_cast<uint64_t *>(consumer);
	reader->producer_position_ = static_cast<const uint64_t *>(producer);
	reader->data_ = static_cast<const uint8_t *>(producer) + page;
	reader->size_bytes_ = info.max_entries;
	reader->page_bytes_ = page;
	reader->map_fd_ = map_fd;
	return reader;
}

std::unique_ptr<RingReader> RingReader::create(const char *name, uint32_t size_bytes, int *error)
{
	const int map_fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, name, 0, 0, size_bytes, nullptr);
	if (map_fd < 0) {
		*error = errno;
		return nullptr;
	}
	std::unique_ptr<RingReader> reader = open(map_fd, error);
	if (reader == nullptr)
		close(map_fd);
	else
		reader->owns_fd_ = true;
	return reader;
}

RingReader::~RingReader()
{
	if (owns_fd_)
		close(map_fd_);
	munmap(consumer_position_, page_bytes_);
	munmap(const_cast<uint64_t *>(producer_position_), page_bytes_ + size_t(size_bytes_));
}

/*
 * Memory order, from kernel/bpf/ringbuf.c:
 *  - __bpf_ringbuf_reserve() writes the header with BUSY set, then smp_store_release(&rb->producer_pos): after our
 *    acquire load of it, every header below that position is visible, though perhaps still BUSY;
 *  - bpf_ringbuf_commit() clears BUSY with xchg(): our acquire load of the length makes the payload visible;
 *  - __bpf_ringbuf_reserve() does smp_load_acquire(&rb->consumer_pos): our release store orders the copies before it,
 * so that no producer overwrites a record that is still being copied. Only this side writes the consumer position, so
 * reading it back needs no ordering.
 */
RingReader::Drained RingReader::drain(uint8_t *into, size_t capacity) noexcept
{
	const uint64_t mask = size_bytes_ - 1;
	const uint64_t start = __atomic_load_n(consumer_position_, __ATOMIC_RELAXED);
	const uint64_t producer = __atomic_load_n(producer_position_, __ATOMIC_ACQUIRE);
	peak_bytes_ = std::max(peak_bytes_, producer - start);
	uint64_t position = start;
	Drained drained = {};

	while (position < producer) {
		const size_t at = position & mask;
		/* Records start at multiples of 8 and the ring size is a multiple of 4096: a header never wraps. */
		const auto *record = reinterpret_cast<const uint32_t *>(data_ + at);
		const uint32_t header = __atomic_load_n(record, __ATOMIC_ACQUIRE);
		if (header & BPF_RINGBUF_BUSY_BIT)
			break;
		const uint32_t length = header & kLengthMask;
		const size_t frame = frame_bytes(length);
		if (frame > producer - position || producer - position > size_bytes_) {
			drained.corrupt = true;
			break;
		}
		if (!(header & BPF_RINGBUF_DISCARD_BIT)) {
			if (frame > capacity - drained.bytes) {
				if (drained.bytes == 0)
					drained.required = frame;
				break;
			}
			write_frame(into + drained.bytes, data_, size_bytes_, (at + kHeaderBytes) & mask, length,
				    frame);
			drained.bytes += frame;
		}
		position += frame;
	}
	if (position != start)
		__atomic_store_n(consumer_position_, position, __ATOMIC_RELEASE);
	return drained;
}

uint64_t RingReader::pending_bytes() noexcept
{
	/*
	 * A reader that announces in another map that it sleeps, and then finds the ring empty, must not read a
	 * position from before the announcement: a program that did not see the announcement has moved the position.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	/* The consumer is read first: it never overtakes the producer, so the difference cannot be negative. */
	const uint64_t consumer = __atomic_load_n(consumer_position_, __ATOMIC_ACQUIRE);
	const uint64_t pending = __atomic_load_n(producer_position_, __ATOMIC_ACQUIRE) - consumer;
	peak_bytes_ = std::max(peak_bytes_, pending);
	return pending;
}

uint64_t RingReader::consumed_bytes() const noexcept
{
	return __atomic_load_n(consumer_position_, __ATOMIC_RELAXED);
}

uint64_t RingReader::take_peak_bytes() noexcept
{
	return std::exchange(peak_bytes_, 0);
}
