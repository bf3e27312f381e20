import type { InputItem } from './request.ts';

/** The result of a tool. `failed` is guessed from the text: the wire format has no field for it. */
type ToolOutcome = { text: string; failed: boolean };

/** A call with its outcome. The `name` of a known tool has no server prefix. */
export type PastCall = { type: 'call'; name: string; input: Record<string, unknown>; outcome: ToolOutcome };
type PastMessage = { type: 'user' | 'assistant' | 'instructions'; text: string };
export type HistoryEntry = PastCall | PastMessage;

const KNOWN_TOOLS = [
  'directory_tree',
  'list_directory',
  'list_allowed_directories',
  'read_text_file',
  'read_file',
  'write_file',
] as const;
export type KnownTool = (typeof KNOWN_TOOLS)[number];

/**
 * The texts of failures from the agent loop and the MCP filesystem server. Those that could also start a document
 * (`ENOENT: …`) must be the whole text.
 */
const FAILURE =
  /^(?:Not run: |MCP error -?\d|Error: |(?:E[A-Z]{3,}: |Access denied - |Parent directory does not exist|Ambiguous Unicode path).*$|.{0,200}\btimed out\b.{0,200}$)/;

/** Returns the file tool that a name refers to, with or without the prefix of its server. */
export function knownTool(name: string): KnownTool | undefined {
  return KNOWN_TOOLS.find(known => name === known || new RegExp(`[_./:-]${known}$`).test(name));
}

/** Returns a predicate for calls of the tool. */
export function isCallOf(tool: KnownTool) {
  return (entry: HistoryEntry): entry is PastCall => entry.type === 'call' && entry.name === tool;
}

/** Converts a transcript for the rules: messages as text, and each call with its outcome, in the order of calls. */
export function readHistory(items: readonly InputItem[]): HistoryEntry[] {
  const outcomes = new Map<string, ToolOutcome>();
  for (const item of items) {
    if (item.type !== 'function_call_output') continue;
    const outcome = readOutcome(textOf(item.output));
    outcomes.set(item.call_id, item.status === 'incomplete' ? { ...outcome, failed: true } : outcome);
  }
  return items.flatMap((item): HistoryEntry[] => {
    if (item.type === 'message') {
      const type = item.role === 'user' || item.role === 'assistant' ? item.role : 'instructions';
      return [{ type, text: textOf(item.content) }];
    }
    if (item.type === 'function_call_output') return [];
    const outcome = outcomes.get(item.call_id);
    const name = knownTool(item.name) ?? item.name;
    return outcome ? [{ type: 'call', name, input: parseObject(item.arguments) ?? {}, outcome }] : [];
  });
}

/** Reads a tool's output: plain text, MCP content blocks, or an MCP result with `content`. */
function readOutcome(output: string): ToolOutcome {
  const parsed = /^\s*[[{]/.test(output) ? parseJson(output) : undefined;
  if (isBlocks(parsed)) return guess(joinBlocks(parsed));
  if (isObject(parsed)) {
    const { content, error, isError } = parsed;
    const alone = Object.keys(parsed).every(key =>
      ['content', 'structuredContent', 'isError', '_meta'].includes(key),
    );
    const text = isBlocks(content) ? joinBlocks(content) : content;
    if (alone && typeof text === 'string') return isError === true ? { text, failed: true } : guess(text);
    const reason = isObject(error) ? error.message : error;
    if (typeof reason === 'string') return { text: reason, failed: true };
  }
  return guess(output);
}

function guess(text: string): ToolOutcome {
  return { text, failed: FAILURE.test(text.trim()) };
}

function textOf(content: string | readonly { text?: string | undefined }[]): string {
  return typeof content === 'string' ? content : content.map(part => part.text ?? '').join('');
}

type TextBlock = { type: 'text'; text: string };

function isBlocks(value: unknown): value is TextBlock[] {
  if (!Array.isArray(value) || value.length === 0) return false;
  return value.every(block => isObject(block) && block.type === 'text' && typeof block.text === 'string');
}

function joinBlocks(blocks: TextBlock[]): string {
  return blocks.map(block => block.text).join('\n');
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parseObject(text: string): Record<string, unknown> | undefined {
  const value = parseJson(text);
  return isObject(value) ? value : undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
