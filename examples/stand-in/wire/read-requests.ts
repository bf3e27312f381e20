import {
  arrayOf,
  jsonIn,
  nonEmpty,
  objectOf,
  objectsOf,
  textIn,
} from '../../../adapters/turn/json-access.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import type { InputItem } from '../request.ts';

/** A request of any provider, as input of the stand-in's rules. */
export type StandInRequest = {
  instructions: string;
  items: InputItem[];
  tools: string[];
  toolsOff: boolean;
};

/** Reads a request of the Chat Completions API. */
export function readChat(body: JsonObject): StandInRequest {
  const items: InputItem[] = [];
  const instructions: string[] = [];
  for (const message of objectsOf(body.messages)) {
    const text = textOf(message.content);
    if (message.role === 'system' || message.role === 'developer') instructions.push(text);
    else if (message.role === 'tool') items.push(outputItem(textIn(message.tool_call_id), text));
    else items.push(...messagesOf(message, text));
    for (const call of objectsOf(message.tool_calls)) {
      const { name, arguments: written } = objectOf(call.function);
      items.push(callItem(textIn(call.id), textIn(name), textIn(written)));
    }
  }
  const tools = objectsOf(body.tools).map(tool => textIn(objectOf(tool.function).name));
  return { instructions: instructions.join('\n'), items, tools, toolsOff: body.tool_choice === 'none' };
}

/** Reads a request of Anthropic's Messages API. */
export function readAnthropic(body: JsonObject): StandInRequest {
  const items: InputItem[] = [];
  for (const message of objectsOf(body.messages)) {
    items.push(...messagesOf(message, textOf(message.content)));
    for (const block of objectsOf(message.content)) {
      if (block.type === 'tool_use') {
        items.push(callItem(textIn(block.id), textIn(block.name), JSON.stringify(block.input)));
      }
      if (block.type === 'tool_result') {
        items.push(outputItem(textIn(block.tool_use_id), textOf(block.content), block.is_error === true));
      }
    }
  }
  return {
    instructions: textOf(body.system),
    items,
    tools: objectsOf(body.tools).map(tool => textIn(tool.name)),
    toolsOff: objectOf(body.tool_choice).type === 'none',
  };
}

/** Reads a request of Gemini's generateContent. */
export function readGemini(body: JsonObject): StandInRequest {
  const calls = new CallsInOrder();
  const items: InputItem[] = [];
  for (const content of objectsOf(body.contents)) {
    const parts = objectsOf(content.parts);
    const role = content.role === 'model' ? 'assistant' : content.role;
    items.push(...messagesOf({ role: role ?? '' }, textOf(parts.filter(part => part.thought !== true))));
    for (const part of parts) {
      const call = objectOf(part.functionCall);
      if (part.functionCall) {
        items.push(callItem(calls.open(textIn(call.name)), textIn(call.name), JSON.stringify(call.args)));
      }
      if (part.functionResponse) {
        const { name, response } = objectOf(part.functionResponse);
        const { result, error } = objectOf(response);
        items.push(outputItem(calls.close(textIn(name)), asText(result ?? error), error !== undefined));
      }
    }
  }
  const mode = objectOf(objectOf(body.toolConfig).functionCallingConfig).mode;
  return {
    instructions: textOf(objectOf(body.systemInstruction).parts),
    items,
    tools: objectsOf(body.tools).flatMap(tool =>
      objectsOf(tool.functionDeclarations).map(({ name }) => textIn(name)),
    ),
    toolsOff: mode === 'NONE',
  };
}

/** Reads a request of Gemini's Interactions API. */
export function readInteractions(body: JsonObject): StandInRequest {
  const items: InputItem[] = [];
  for (const step of objectsOf(body.input)) {
    const text = textOf(step.content ?? step.result);
    if (step.type === 'user_input') items.push(...messagesOf({ role: 'user' }, text));
    if (step.type === 'model_output') items.push(...messagesOf({ role: 'assistant' }, text));
    if (step.type === 'function_call')
      items.push(callItem(textIn(step.id), textIn(step.name), JSON.stringify(step.arguments)));
    if (step.type === 'function_result')
      items.push(outputItem(textIn(step.call_id), text, step.is_error === true));
  }
  return {
    instructions: textIn(body.system_instruction),
    items,
    tools: objectsOf(body.tools).map(tool => textIn(tool.name)),
    toolsOff: objectOf(body.generation_config).tool_choice === 'none',
  };
}

/** Reads a request of Ollama's /api/chat. */
export function readOllama(body: JsonObject): StandInRequest {
  const calls = new CallsInOrder();
  const items: InputItem[] = [];
  const instructions: string[] = [];
  for (const message of objectsOf(body.messages)) {
    const text = textIn(message.content);
    if (message.role === 'system') instructions.push(text);
    else if (message.role === 'tool') items.push(outputItem(calls.close(textIn(message.tool_name)), text));
    else items.push(...messagesOf(message, text));
    for (const call of objectsOf(message.tool_calls)) {
      const { name, arguments: input } = objectOf(call.function);
      if (!isJsonObject(input)) continue;
      items.push(callItem(calls.open(textIn(name)), textIn(name), JSON.stringify(input)));
    }
  }
  const tools = objectsOf(body.tools).map(tool => textIn(objectOf(tool.function).name));
  return { instructions: instructions.join('\n'), items, tools, toolsOff: false };
}

/** Gives ids to calls without ids. A result belongs to the first open call with its name. */
export class CallsInOrder {
  readonly #open: { id: string; name: string }[] = [];
  #count = 0;

  open(name: string): string {
    const id = `unnamed_${this.#count++}`;
    this.#open.push({ id, name });
    return id;
  }

  close(name: string): string {
    const at = this.#open.findIndex(call => call.name === name);
    return this.#open.splice(at, at === -1 ? 0 : 1)[0]?.id ?? 'nobody';
  }
}

function messagesOf({ role }: JsonObject, text: string): InputItem[] {
  if (text === '' || (role !== 'user' && role !== 'assistant')) return [];
  return [{ type: 'message', role, content: text }];
}

function callItem(call_id: string, name: string, written: string): InputItem {
  return { type: 'function_call', call_id, name, arguments: written };
}

function outputItem(call_id: string, text: string, failed = false): InputItem {
  return { type: 'function_call_output', call_id, output: text, ...(failed ? { status: 'incomplete' } : {}) };
}

/** Returns content as text; of a list of parts, the texts. */
function textOf(content: JsonValue | undefined): string {
  if (typeof content === 'string') return content;
  return arrayOf(content)
    .flatMap(part => nonEmpty(objectOf(part).text) ?? [])
    .join('');
}

function asText(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null);
}

/** Parses a request body; anything but a JSON object becomes an empty object. */
export function parseBody(text: string): JsonObject {
  return objectOf(jsonIn(text));
}
