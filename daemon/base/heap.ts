/** A binary min-heap. Each item stores its slot in the heap, so that any item can be moved or removed. */
export interface HeapItem {
  /** Slot of the item in the heap, which the heap maintains; -1 while the item is not in the heap. */
  slot: number;
}

export interface Heap<Item extends HeapItem> {
  readonly size: number;
  peek(): Item | undefined;
  push(item: Item): void;
  remove(item: Item): void;
  /** Moves an item to its new slot after its sort key has changed. */
  reorder(item: Item): void;
}

export function createHeap<Item extends HeapItem>(before: (a: Item, b: Item) => boolean): Heap<Item> {
  const items: Item[] = [];

  function put(item: Item, slot: number): void {
    items[slot] = item;
    item.slot = slot;
  }

  function siftUp(item: Item): void {
    let slot = item.slot;
    while (slot > 0) {
      const parent = (slot - 1) >> 1;
      if (!before(item, items[parent]!)) break;
      put(items[parent]!, slot);
      slot = parent;
    }
    put(item, slot);
  }

  function siftDown(item: Item): void {
    let slot = item.slot;
    for (;;) {
      let child = 2 * slot + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && before(items[child + 1]!, items[child]!)) child++;
      if (!before(items[child]!, item)) break;
      put(items[child]!, slot);
      slot = child;
    }
    put(item, slot);
  }

  function reorder(item: Item): void {
    siftUp(item);
    siftDown(item);
  }

  return {
    get size() {
      return items.length;
    },
    peek: () => items[0],
    push(item) {
      put(item, items.length);
      siftUp(item);
    },
    remove(item) {
      const last = items.pop()!;
      if (last !== item) {
        put(last, item.slot);
        reorder(last);
      }
      item.slot = -1;
    },
    reorder,
  };
}
