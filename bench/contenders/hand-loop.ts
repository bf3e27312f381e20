import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { OpenAI } from 'openai';
import type { FunctionTool, ResponseInputItem } from 'openai/resources/responses/responses';
import { makeTemporaryFolder } from '../temporary-folder.ts';
import type { Contender } from './contender.ts';
import {
  API_KEY,
  BASE_URL,
  INSTRUCTIONS,
  inputSchema,
  MODEL,
  measurePoint,
  PARAMETERS,
  TOOL_DESCRIPTION,
  TOOL_NAME,
} from './measure-tool.ts';

const TOOLS: FunctionTool[] = [
  { type: 'function', name: TOOL_NAME, description: TOOL_DESCRIPTION, parameters: PARAMETERS, strict: false },
];

type Save = (items: readonly ResponseInputItem[]) => void;

/** Opens a hand-written loop that stores the messages of each turn in SQLite, with the settings of our store. */
export function openSavedHandLoop(fetch: typeof globalThis.fetch): Contender {
  const database = new DatabaseSync(join(makeTemporaryFolder(), 'messages.db'));
  database.exec(
    'PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE messages (json TEXT) STRICT',
  );
  const insert = database.prepare('INSERT INTO messages VALUES (?)');
  const loop = openHandLoop(fetch, items => void insert.run(JSON.stringify(items)));
  return { ...loop, close: async () => database.close() };
}

/**
 * Opens a hand-written loop: the official client, parsed and validated arguments. `save` gets the messages of each turn
 * before the next model call; by default nothing is stored.
 */
export function openHandLoop(fetch: typeof globalThis.fetch, save: Save = () => {}): Contender {
  const client = new OpenAI({ apiKey: API_KEY, baseURL: BASE_URL, maxRetries: 0, fetch });
  const settings = {
    model: MODEL,
    instructions: INSTRUCTIONS,
    tools: TOOLS,
    tool_choice: 'auto',
    store: false,
  } as const;
  let executions = 0;

  async function loop(input: ResponseInputItem[]): Promise<string> {
    for (;;) {
      const response = await client.responses.create({ ...settings, input });
      const calls = response.output.filter(item => item.type === 'function_call');
      if (calls.length === 0) {
        save([answer(response.output_text)]);
        return response.output_text;
      }
      for (const { call_id, name, arguments: text } of calls) {
        input.push({ type: 'function_call', call_id, name, arguments: text });
      }
      const results = await Promise.all(calls.map(call => runTool(call.arguments)));
      for (const [index, { call_id }] of calls.entries()) {
        input.push({ type: 'function_call_output', call_id, output: JSON.stringify(results[index]) });
      }
      save(input.slice(-2 * calls.length));
    }
  }

  async function runTool(text: string): Promise<unknown> {
    executions += 1;
    return await measurePoint(inputSchema.parse(JSON.parse(text)));
  }

  return {
    run: message => loop([{ role: 'user', content: message }]),
    async read(message, onDelta) {
      const input: ResponseInputItem[] = [{ role: 'user', content: message }];
      const stream = await client.responses.create({ ...settings, input, stream: true });
      let text = '';
      for await (const event of stream) {
        if (event.type !== 'response.output_text.delta') continue;
        text += event.delta;
        onDelta();
      }
      return text;
    },
    converse() {
      const history: ResponseInputItem[] = [];
      return async message => {
        history.push({ role: 'user', content: message });
        const text = await loop(history);
        history.push(answer(text));
        return text;
      };
    },
    executions: () => executions,
    close: async () => {},
  };
}

/** Returns an answer as input for the next request with `store: false`: without an id. */
function answer(text: string): ResponseInputItem {
  return { role: 'assistant', content: [{ type: 'output_text', text }] } as ResponseInputItem;
}
