/** The files of this tree, parsed and not run: their syntax nodes and their imports. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { parseSync } from '@swc/core';

export const ROOT = join(import.meta.dirname, '../..');
const ROOMS = ['agent', 'bpf', 'daemon', 'native', 'test'];
const BUILT = /(^|\/)(build|node_modules)\//;

export function read(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8');
}

function filesIn(room: string): string[] {
  return readdirSync(join(ROOT, room), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length + 1))
    .filter((file) => !BUILT.test(file));
}

export const FILES = ['kreplay.ts', 'jest.config.js', ...ROOMS.flatMap(filesIn)].sort();
export const SCRIPTS = FILES.filter((file) => /\.([jt]s|tsx)$/.test(file));
export const TYPESCRIPT = FILES.filter((file) => /\.tsx?$/.test(file));
export const CODE = FILES.filter((file) => /\.(ts|tsx|js|css|c|h|cc|sh)$/.test(file));

export interface Node {
  type: string;
  span: { start: number; end: number };
  [key: string]: unknown;
}

export interface Source {
  nodes: Node[];
  lines: string[];
  /** Line numbers start at 1. */
  lineOf(offset: number): number;
}

/** Spans are byte offsets from a base of the parser's choice, which the span of the semicolon in front shows. */
export function parse(text: string, tsx = false): Source {
  const bytes = Buffer.from(`;${text}`);
  const module = parseSync(`;${text}`, { syntax: 'typescript', tsx, target: 'es2024' }) as unknown as { body: Node[] };
  const base = module.body[0]!.span.start;
  const lineOf = (offset: number) =>
    bytes
      .subarray(0, offset - base)
      .toString('latin1')
      .split('\n').length;
  return { nodes: [...nodesIn(module.body)], lines: text.split('\n'), lineOf };
}

function* nodesIn(value: unknown): Generator<Node> {
  if (Array.isArray(value)) for (const item of value) yield* nodesIn(item);
  else if (typeof value === 'object' && value !== null) {
    if ('type' in value && typeof value.type === 'string') yield value as Node;
    for (const child of Object.values(value)) yield* nodesIn(child);
  }
}

const parsed = new Map<string, Source>();

/** A script of the tree, parsed when it is first asked for. */
export function sourceOf(file: string): Source {
  const known = parsed.get(file);
  if (known) return known;
  const source = parse(read(file), file.endsWith('x'));
  parsed.set(file, source);
  return source;
}

/** The imports of a file: a file of this tree by its path, a package or `node:` module by its name. */
export function importsOf(file: string): string[] {
  const texts = sourceOf(file).nodes.flatMap((node) => {
    if (/^(Import|Export(All|Named))Declaration$/.test(node.type)) return node.source ? [node.source as Node] : [];
    if (node.type === 'TsImportType') return [node.argument as Node];
    const called = node.type === 'CallExpression' ? (node.callee as Node) : undefined;
    const makes = called?.type === 'CallExpression' ? (called.callee as Node).value : undefined;
    if (called?.type !== 'Import' && called?.value !== 'require' && makes !== 'createRequire') return [];
    return [(node.arguments as { expression: Node }[])[0]!.expression];
  });
  return texts.map(({ value }) => {
    const name = String(value ?? 'what is not known before it runs');
    return name.startsWith('.') ? normalize(join(dirname(file), name)) : name;
  });
}

export function isIn(file: string, place: string): boolean {
  return place === ANYTHING || file === place || file.startsWith(place.endsWith(':') ? place : `${place}/`);
}

export const ANYTHING = '*';
