import type { StandIn } from '../provider.ts';

/** An agent loop to measure. All except the peers send the same requests to the provider. */
export interface Contender {
  /** Runs the agent without streaming; resolves to the final text. */
  run(message: string): Promise<string>;
  /** Runs the agent with streaming; calls `onDelta` for each piece of text. */
  read(message: string, onDelta: () => void): Promise<string>;
  /** Starts a conversation: each call of the function is a run that continues the previous one. */
  converse(): (message: string) => Promise<string>;
  /** The number of tool executions so far. */
  executions(): number;
  close(): Promise<void>;
}

const HAND_LOOP = 'hand-written loop';
/** The least that a durable loop can do on this disk: one commit of the turn's messages before the next model call. */
export const HAND_LOOP_SQLITE = 'hand-written loop, sqlite';
export const MEMORY = 'agentchart, memory';
export const SQLITE = 'agentchart, sqlite';
/** With a `once` tool: each start is on disk before the tool runs. */
export const SQLITE_ONCE = 'agentchart, sqlite, once';
/** Its transcript is compacted at 20,000 characters, so that its requests are others than those of the rest. */
export const COMPACTED = 'agentchart, memory, compacted';
export const CONTENDERS = [HAND_LOOP, MEMORY, SQLITE] as const;

export const AI_SDK = 'AI SDK 7';
const OPENAI_AGENTS = 'OpenAI Agents';
const MASTRA = 'Mastra';
const LANGGRAPH = 'LangGraph.js';
const LANGGRAPH_MEMORY = 'LangGraph.js, memory';
const LANGGRAPH_SQLITE = 'LangGraph.js, sqlite';
/**
 * The loops of other projects in `bench/peers`. They make the same model calls in their own request format. Those
 * without a store in their name store nothing.
 */
export const PEERS = [AI_SDK, OPENAI_AGENTS, MASTRA, LANGGRAPH, LANGGRAPH_MEMORY, LANGGRAPH_SQLITE] as const;

/** Opens a contender. Imports only its module, so that the others use no memory in this process. */
export async function openContender(name: string, provider: StandIn): Promise<Contender> {
  switch (name) {
    case HAND_LOOP:
      return (await import('./hand-loop.ts')).openHandLoop(provider.fetch);
    case HAND_LOOP_SQLITE:
      return (await import('./hand-loop.ts')).openSavedHandLoop(provider.fetch);
    case MEMORY:
      return (await import('./agentchart.ts')).openAgentchart(provider.fetch, { store: 'memory' });
    case COMPACTED:
      return (await import('./agentchart.ts')).openAgentchart(provider.fetch, {
        store: 'memory',
        compaction: { at: 5_000, summarize: 'model' },
      });
    case SQLITE:
      return (await import('./agentchart.ts')).openAgentchart(provider.fetch, { store: 'sqlite' });
    case SQLITE_ONCE:
      return (await import('./agentchart.ts')).openAgentchart(provider.fetch, {
        store: 'sqlite',
        sideEffect: 'once',
      });
    case AI_SDK:
      return (await import('../peers/ai-sdk.ts')).openAiSdk(provider.fetch);
    case OPENAI_AGENTS:
      return (await import('../peers/openai-agents.js')).openOpenAiAgents(provider.fetch);
    case MASTRA:
      return (await import('../peers/mastra.js')).openMastra(provider.fetch);
    case LANGGRAPH:
      return (await import('../peers/langgraph.js')).openLangGraph(provider.fetch, 'none');
    case LANGGRAPH_MEMORY:
      return (await import('../peers/langgraph.js')).openLangGraph(provider.fetch, 'memory');
    case LANGGRAPH_SQLITE:
      return (await import('../peers/langgraph.js')).openLangGraph(provider.fetch, 'sqlite');
    default:
      throw new Error(
        `Unknown contender "${name}". Expected one of: ${[...CONTENDERS, HAND_LOOP_SQLITE, SQLITE_ONCE, ...PEERS].join('; ')}.`,
      );
  }
}

/** Throws an `Error` if a run's text differs from the expected one. */
export function expectText(found: string, expected: string): void {
  if (found === expected) return;
  throw new Error(`Expected the final text "${expected.slice(0, 80)}", got "${found.slice(0, 80)}".`);
}

/** Throws an `Error` if the number of tool executions differs from the expected one. */
export function expectExecutions(contender: Contender, expected: number): void {
  const found = contender.executions();
  if (found !== expected) throw new Error(`Expected ${expected} tool executions, got ${found}.`);
}
