import { join } from 'node:path';
import { tool } from '@langchain/core/tools';
import { MemorySaver } from '@langchain/langgraph';
import { createReactAgent } from '@langchain/langgraph/prebuilt';
import { SqliteSaver } from '@langchain/langgraph-checkpoint-sqlite';
import { ChatOpenAI } from '@langchain/openai';
import {
  API_KEY,
  BASE_URL,
  INSTRUCTIONS,
  inputSchema,
  MODEL,
  measurePoint,
  TOOL_DESCRIPTION,
  TOOL_NAME,
} from '../contenders/measure-tool.ts';
import { makeTemporaryFolder } from '../temporary-folder.ts';

/** A step of the graph is a node: two for each round. */
const RECURSION_LIMIT = 10_000;

export function openLangGraph(fetch, kind) {
  const checkpointer = openCheckpointer(kind);
  let executions = 0;
  let threads = 0;
  const makeAgent = streaming =>
    createReactAgent({
      llm: new ChatOpenAI({
        ...{
          model: MODEL,
          apiKey: API_KEY,
          useResponsesApi: true,
          maxRetries: 0,
          streaming,
          zdrEnabled: true,
        },
        configuration: { baseURL: BASE_URL, fetch },
      }),
      prompt: INSTRUCTIONS,
      checkpointer,
      tools: [
        tool(
          async input => {
            executions += 1;
            return await measurePoint(input);
          },
          { name: TOOL_NAME, description: TOOL_DESCRIPTION, schema: inputSchema },
        ),
      ],
    });
  const agent = makeAgent(false);
  const streamed = makeAgent(true);
  const ask = content => ({ messages: [{ role: 'user', content }] });
  const onThread = () => {
    threads += 1;
    return { recursionLimit: RECURSION_LIMIT, configurable: { thread_id: `thread_${threads}` } };
  };
  return {
    async run(message) {
      const { messages } = await agent.invoke(ask(message), onThread());
      return messages.at(-1).text;
    },
    async read(message, onDelta) {
      let text = '';
      const options = { ...onThread(), streamMode: 'messages' };
      for await (const [chunk] of await streamed.stream(ask(message), options)) {
        if (chunk.text === '') continue;
        text += chunk.text;
        onDelta();
      }
      return text;
    },
    converse() {
      const options = onThread();
      let history = [];
      return async content => {
        const said = ask(content).messages;
        const begun = { messages: checkpointer === undefined ? [...history, ...said] : said };
        const { messages } = await agent.invoke(begun, options);
        history = messages;
        return messages.at(-1).text;
      };
    },
    executions: () => executions,
    close: async () => checkpointer?.db?.close(),
  };
}

/** The savers with their own settings; SQLite uses a temporary folder. */
function openCheckpointer(kind) {
  if (kind === 'none') return undefined;
  if (kind === 'memory') return new MemorySaver();
  return SqliteSaver.fromConnString(join(makeTemporaryFolder(), 'threads.db'));
}
