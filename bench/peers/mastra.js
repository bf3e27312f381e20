import { createOpenAI } from '@ai-sdk/openai';
import { Agent } from '@mastra/core/agent';
import { createTool } from '@mastra/core/tools';
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

export function openMastra(fetch) {
  process.env.MASTRA_TELEMETRY_DISABLED = '1';
  const provider = createOpenAI({ apiKey: API_KEY, baseURL: BASE_URL, fetch });
  let executions = 0;
  const agent = new Agent({
    id: 'bench',
    name: 'bench',
    instructions: INSTRUCTIONS,
    model: provider.responses(MODEL),
    maxRetries: 0,
    tools: {
      [TOOL_NAME]: createTool({
        id: TOOL_NAME,
        description: TOOL_DESCRIPTION,
        inputSchema,
        execute: async input => {
          executions += 1;
          return await measurePoint(input);
        },
      }),
    },
  });
  const options = { maxSteps: 1_000, providerOptions: { openai: { store: false } } };
  return {
    run: async message => (await agent.generate(message, options)).text,
    async read(message, onDelta) {
      let text = '';
      const { textStream } = await agent.stream(message, options);
      for await (const piece of textStream) {
        text += piece;
        onDelta();
      }
      return text;
    },
    converse() {
      const messages = [];
      return async content => {
        messages.push({ role: 'user', content });
        const { text, response } = await agent.generate(messages, options);
        messages.push(...response.messages);
        return text;
      };
    },
    executions: () => executions,
    close: async () => {},
  };
}
