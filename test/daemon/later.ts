/** Turns chunks at hand into chunks that come later, and back. */

export async function* later<Chunk>(chunks: Iterable<Chunk>): AsyncGenerator<Chunk> {
  yield* chunks;
}

export async function gathered<Chunk>(chunks: AsyncIterable<Chunk>): Promise<Chunk[]> {
  const all: Chunk[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return all;
}
