/** Numbers the names, files, contexts and recordings of an answer, so that its rows are as those of a recording. */
import type { Context, Dictionary, NodeRecording } from '../blocks/scanned_block.ts';

export interface AnswerDictionary extends Dictionary {
  /** Texts and ids that are empty have number 0. */
  nameId(text: string): number;
  fileId(path: string, kind: string): number;
  /** `trace` and `span` are bytes, all zero where there is none; `key` is all three, as text. */
  contextId(key: string, transaction: string, trace: Buffer, span: Buffer): number;
  recordingIndex(id: bigint, node: string): number;
  /** Number of entries. */
  readonly size: number;
}

const NO_CONTEXT: Context = { transactionId: null, traceId: null, spanId: null };

export function answerDictionary(): AnswerDictionary {
  const [names, nameIds] = [[''], new Map([['', 0]])];
  const files: ({ path: string; kind: string } | undefined)[] = [undefined];
  const fileIds = new Map<string, Map<string, number>>();
  const [contexts, contextIds] = [[NO_CONTEXT], new Map<string, number>()];
  const recordings: NodeRecording[] = [];
  const recordingIndexes = new Map<bigint, number>();

  return {
    name: (id) => names[id]!,
    file: (id) => files[id],
    context: (id) => contexts[id]!,
    recording: (index) => recordings[index]!,
    nameId(text) {
      let id = nameIds.get(text);
      if (id === undefined) {
        id = names.push(text) - 1;
        nameIds.set(text, id);
      }
      return id;
    },
    fileId(path, kind) {
      if (kind === '') return 0;
      const ofKind = fileIds.get(kind) ?? new Map<string, number>();
      let id = ofKind.get(path);
      if (id === undefined) {
        id = files.push({ path, kind }) - 1;
        fileIds.set(kind, ofKind.set(path, id));
      }
      return id;
    },
    contextId(key, transaction, trace, span) {
      let id = contextIds.get(key);
      if (id === undefined) {
        id = contexts.push(contextOf(transaction, trace, span)) - 1;
        contextIds.set(key, id);
      }
      return id;
    },
    recordingIndex(id, node) {
      let index = recordingIndexes.get(id);
      if (index === undefined) {
        index = recordings.push({ recordingId: recordingIdOf(id), node }) - 1;
        recordingIndexes.set(id, index);
      }
      return index;
    },
    get size() {
      return names.length + files.length + contexts.length + recordings.length;
    },
  };
}

/** The id of a recording, which the tables have as a number. */
export function recordingIdOf(id: bigint): string {
  return id.toString(16).padStart(16, '0');
}

function contextOf(transaction: string, trace: Buffer, span: Buffer): Context {
  return { transactionId: transaction === '' ? null : transaction, traceId: hexOf(trace), spanId: hexOf(span) };
}

/** Null for bytes that are all zero. */
export function hexOf(bytes: Buffer): string | null {
  return bytes.every((byte) => byte === 0) ? null : bytes.toString('hex');
}
