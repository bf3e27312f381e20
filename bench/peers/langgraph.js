import { tool } from '@langchain/core/tools';
import { createReactAgent } from '@langchain/langgraph/prebuilt';
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

/** A step of the graph is a node: two for each round. */
const RECURSION_LIMIT = 10_000;

export function openLangGraph(fetch) {
  let executions = 0;
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
  return {
    async run(message) {
      const { messages } = await agent.invoke(ask(message), { recursionLimit: RECURSION_LIMIT });
      return messages.at(-1).text;
    },
    async read(message, onDelta) {
      let text = '';
      const options = { recursionLimit: RECURSION_LIMIT, streamMode: 'messages' };
      for await (const [chunk] of await streamed.stream(ask(message), options)) {
        if (chunk.text === '') continue;
        text += chunk.text;
        onDelta();
      }
      return text;
    },
    converse() {
      let history = [];
      return async content => {
        const begun = { messages: [...history, ...ask(content).messages] };
        const { messages } = await agent.invoke(begun, { recursionLimit: RECURSION_LIMIT });
        history = messages;
        return messages.at(-1).text;
      };
    },
    executions: () => executions,
    close: async () => {},
  };
}
