#include "gather.h"

#include <algorithm>
#include <cstring>

namespace
{

/* Number of records that stay in the L1 cache while one field after the other is read from them. */
constexpr size_t kRecordsAtOnce = 128;

template <typename Word>
void gather(const uint8_t *field, const uint32_t *offsets, uint8_t *values, size_t first, size_t end)
{
	Word *output = reinterpret_cast<Word *>(values);
	for (size_t i = first; i < end; i++)
		std::memcpy(output + i, field + offsets[i], sizeof(Word));
}

} // namespace

bool gather_fields(std::span<const uint8_t> records, const uint32_t *offsets, size_t count,
		   std::span<const Field> fields)
{
	size_t last = 0;
	for (size_t i = 0; i < count; i++)
		last = std::max<size_t>(last, offsets[i]);
	for (const Field &field : fields) {
		if (count > 0 && last + field.offset + field.values.width > records.size())
			return false;
	}
	for (size_t first = 0; first < count; first += kRecordsAtOnce) {
		const size_t end = std::min(count, first + kRecordsAtOnce);
		for (const auto &[offset, values] : fields) {
			const uint8_t *field = records.data() + offset;
			switch (values.width) {
			case 1:
				gather<uint8_t>(field, offsets, values.data, first, end);
				break;
			case 2:
				gather<uint16_t>(field, offsets, values.data, first, end);
				break;
			case 4:
				gather<uint32_t>(field, offsets, values.data, first, end);
				break;
			default:
				gather<uint64_t>(field, offsets, values.data, first, end);
			}
		}
	}
	return true;
}
