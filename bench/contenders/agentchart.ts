import { join } from 'node:path';
import { openaiResponses } from '../../adapters/openai-responses.ts';
import { type AgentOptions, createAgent, memory, type Settled, tool } from '../../agent/index.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { SideEffect } from '../../protocol/tool.ts';
import { sqlite } from '../../stores/sqlite.ts';
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

/**
 * Opens Agentchart with default options except its limits; SQLite uses a temporary folder. The tool is declared as
 * `none` unless `sideEffect` is set.
 */
export function openAgentchart(
  fetch: typeof globalThis.fetch,
  {
    store: kind,
    sideEffect = 'none',
    compaction,
  }: { store: 'memory' | 'sqlite'; sideEffect?: SideEffect; compaction?: AgentOptions['compaction'] },
): Contender {
  const store = kind === 'memory' ? memory() : sqlite(join(makeTemporaryFolder(), 'runs.db'));
  let executions = 0;
  const agent = createAgent({
    name: 'bench',
    model: openaiResponses({ model: MODEL, apiKey: API_KEY, baseURL: BASE_URL, store: false, fetch }),
    instructions: INSTRUCTIONS,
    limits: { turns: 10_000, toolCalls: 10_000 },
    store,
    ...omitUndefined({ compaction }),
    tools: [
      tool({
        name: TOOL_NAME,
        description: TOOL_DESCRIPTION,
        input: inputSchema,
        inputSchema: PARAMETERS,
        sideEffect,
        run: input => {
          executions += 1;
          return measurePoint(input);
        },
      }),
    ],
  });
  return {
    run: async message => textOf(await agent.run(message, { stream: false })),
    async read(message, onDelta) {
      const run = await agent.start(message);
      let text = '';
      for await (const piece of run.text()) {
        text += piece;
        onDelta();
      }
      textOf(await run.settled());
      return text;
    },
    converse() {
      let last: string | undefined;
      return async message => {
        const options = { stream: false, ...omitUndefined({ continues: last }) };
        const run = await agent.start(message, options);
        last = run.id;
        return textOf(await run.settled());
      };
    },
    executions: () => executions,
    async close() {
      await agent.close();
      await store.close();
    },
  };
}

function textOf(settled: Settled): string {
  if (settled.status === 'finished') return settled.text;
  throw new Error(`Expected a finished run, got ${JSON.stringify(settled)}`);
}
