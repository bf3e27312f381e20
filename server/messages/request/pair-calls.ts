import type { JsonObject } from '../../../protocol/json.ts';
import type { ResponsesError } from '../../responses/api-error.ts';
import { blocksOf, invalidAt, type Message } from './message-body.ts';

/** The calls that have no result yet: the id and the path of the message of each. */
type OpenCalls = Map<string, string>;

/**
 * Throws a `ResponsesError` unless the results of all calls come in the next message, as providers require. Adjacent
 * messages of one role count as one.
 */
export function assertPaired(messages: readonly Message[]): void {
  const known = new Set<string>();
  const open: OpenCalls = new Map();
  for (const [at, message] of messages.entries()) {
    const place = `messages.${at}`;
    for (const { block, path } of blocksOf(message, place)) {
      if (message.role === 'assistant' && block.type === 'tool_use') {
        const id = readId(block, path);
        if (known.has(id)) throw invalidAt(`${path}.id`, '`tool_use` ids must be unique');
        known.add(id);
        open.set(id, place);
      }
      if (message.role === 'user' && block.type === 'tool_result') {
        const id = typeof block.tool_use_id === 'string' ? block.tool_use_id : '';
        if (!open.delete(id)) throw unexpectedResult(id, path);
      }
    }
    if (messages[at + 1]?.role !== message.role && message.role !== 'assistant') assertAnswered(open);
  }
  assertAnswered(open);
}

function readId({ id, name }: JsonObject, path: string): string {
  if (typeof id !== 'string' || id === '') throw invalidAt(`${path}.id`, 'expected a non-empty string');
  if (typeof name !== 'string' || name === '') throw invalidAt(`${path}.name`, 'expected a non-empty string');
  return id;
}

function assertAnswered(open: OpenCalls): void {
  const [place] = open.values();
  if (place === undefined) return;
  throw invalidAt(
    place,
    `\`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${[...open.keys()].join(', ')}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
  );
}

function unexpectedResult(id: string, path: string): ResponsesError {
  return invalidAt(
    path,
    `unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
  );
}
