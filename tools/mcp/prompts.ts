import type { Client, PromptMessage } from '@modelcontextprotocol/client';
import { describeMedia } from '../../protocol/content/read-content.ts';
import { type EngineError, invalidInput } from '../../protocol/error.ts';
import type { MessageItem, Part } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { isInputRequired, readBlock } from './read-result.ts';
import { askServer, type ServerConnection } from './session.ts';

/** A prompt of a server: messages that it writes from the arguments. */
export type McpPrompt = {
  name: string;
  title?: string;
  description?: string;
  arguments: readonly { name: string; description?: string; required: boolean }[];
};

/** What a person names in an error, of a long list. */
const MOST_NAMED = 50;

/** In the server's order. Rejects with an `EngineError` `tool-source-failed`. @internal */
export async function listPrompts(connection: ServerConnection, timeout: number): Promise<McpPrompt[]> {
  return await askServer(connection, async client => {
    if (!client.getServerCapabilities()?.prompts) return [];
    const options = { timeout, signal: AbortSignal.timeout(timeout), cacheMode: 'bypass' } as const;
    return (await client.listPrompts(undefined, options)).prompts.map(readPrompt);
  });
}

type Listed = Awaited<ReturnType<Client['listPrompts']>>['prompts'][number];

function readPrompt({ name, title, description, arguments: given = [] }: Listed): McpPrompt {
  return {
    name,
    ...omitUndefined({ title, description }),
    arguments: given.map(({ name: one, description: about, required = false }) => ({
      name: one,
      ...omitUndefined({ description: about }),
      required,
    })),
  };
}

/**
 * The messages of a prompt, as the input of a run. Rejects with an `EngineError` `input-invalid` for another prompt or for
 * arguments that it does not take, or `tool-source-failed`.
 * @internal
 */
export async function getPrompt(
  server: string,
  connection: ServerConnection,
  { name, given, timeout }: { name: string; given: Readonly<Record<string, string>>; timeout: number },
): Promise<MessageItem[]> {
  const prompts = await listPrompts(connection, timeout);
  const prompt = prompts.find(one => one.name === name);
  if (prompt === undefined) throw unknownPrompt(server, name, prompts);
  checkArguments(prompt, given);
  const result = await askServer(connection, async client => {
    const options = { timeout, signal: AbortSignal.timeout(timeout), allowInputRequired: true };
    return await client.getPrompt({ name, arguments: { ...given } }, options);
  });
  if (isInputRequired(result))
    throw invalidInput(
      `The prompt "${name}" of "${server}" asks for input besides its arguments, which cannot be given.`,
    );
  return result.messages.map(message => readMessage(name, message));
}

function unknownPrompt(server: string, name: string, prompts: readonly McpPrompt[]): EngineError {
  const names = prompts.slice(0, MOST_NAMED).map(one => `"${one.name}"`);
  const known = names.length === 0 ? 'it has no prompts' : `it has ${names.join(', ')}`;
  return invalidInput(`The MCP server "${server}" has no prompt "${name}": ${known}.`);
}

function checkArguments(
  { name, arguments: taken }: McpPrompt,
  given: Readonly<Record<string, string>>,
): void {
  const unknown = Object.keys(given).filter(one => !taken.some(argument => argument.name === one));
  const missing = taken.filter(({ name: one, required }) => required && !Object.hasOwn(given, one));
  if (unknown.length === 0 && missing.length === 0) return;
  const expected = taken.map(({ name: one, required }) => (required ? one : `${one} (optional)`));
  const takes = expected.length === 0 ? 'no arguments' : expected.join(', ');
  const problem =
    unknown.length > 0 ? `got ${unknown.join(', ')}` : `without ${missing.map(one => one.name).join(', ')}`;
  throw invalidInput(`The prompt "${name}" takes ${takes}; ${problem}.`);
}

/** Providers take only texts of an assistant. */
function readMessage(name: string, { role, content }: PromptMessage): MessageItem {
  const part = readBlock(name, content);
  const isText = role === 'user' || part.type === 'text';
  return { type: 'message', role, content: [isText ? part : describePart(part)] };
}

function describePart(part: Exclude<Part, { type: 'text' }>): Part {
  return { type: 'text', text: `[${describeMedia(part)}]` };
}
