import { Agent, OpenAIResponsesModel, Runner, tool } from '@openai/agents';
import { OpenAI } from 'openai';
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

export function openOpenAiAgents(fetch) {
  const client = new OpenAI({ apiKey: API_KEY, baseURL: BASE_URL, maxRetries: 0, fetch });
  let executions = 0;
  const agent = new Agent({
    name: 'bench',
    model: new OpenAIResponsesModel(client, MODEL),
    modelSettings: { store: false },
    instructions: INSTRUCTIONS,
    tools: [
      tool({
        name: TOOL_NAME,
        description: TOOL_DESCRIPTION,
        parameters: inputSchema,
        execute: async input => {
          executions += 1;
          return await measurePoint(input);
        },
      }),
    ],
  });
  const runner = new Runner({ tracingDisabled: true });
  const options = { maxTurns: null };
  return {
    run: async message => (await runner.run(agent, message, options)).finalOutput ?? '',
    async read(message, onDelta) {
      let text = '';
      const streamed = await runner.run(agent, message, { ...options, stream: true });
      for await (const piece of streamed.toTextStream()) {
        text += piece;
        onDelta();
      }
      return text;
    },
    converse() {
      let history = [];
      return async content => {
        const result = await runner.run(agent, [...history, { role: 'user', content }], options);
        history = result.history;
        return result.finalOutput ?? '';
      };
    },
    executions: () => executions,
    close: async () => {},
  };
}
