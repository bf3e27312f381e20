import type { StandIn } from '../provider.ts';

/** An agent loop to be measured. All but the peers send the provider the same requests. */
export interface Contender {
  /** One run, not streamed, from a message to the final text. */
  run(message: string): Promise<string>;
  /** One run, streamed; `onDelta` is called for each piece of text as it comes. */
  read(message: string, onDelta: () => void): Promise<string>;
  /** A conversation: each call is a run that goes on from the one before. */
  converse(): (message: string) => Promise<string>;
  /** How often the tool was executed so far. */
  executions(): number;
  close(): Promise<void>;
}

export const HAND_LOOP = 'hand-written loop';
export const MEMORY = 'agentchart, memory';
export const SQLITE = 'agentchart, sqlite';
/** With a tool that must not run twice: its start waits for the disk. */
export const SQLITE_ONCE = 'agentchart, sqlite, once';
export const CONTENDERS = [HAND_LOOP, MEMORY, SQLITE] as const;

export const AI_SDK = 'AI SDK 7';
export const LANGGRAPH = 'LangGraph.js';
/** Other projects' loops, at `bench/peers`. They ask the same model the same things, in requests of their own form. */
export const PEERS = [AI_SDK, LANGGRAPH] as const;

/** Loads the contender alone: a process that measures one has nothing of the others in memory. */
export async function openContender(name: string, provider: StandIn): Promise<Contender> {
  switch (name) {
    case HAND_LOOP:
      return (await import('./hand-loop.ts')).openHandLoop(provider.fetch);
    case MEMORY:
      return (await import('./agentchart.ts')).openAgentchart(provider.fetch, { store: 'memory' });
    case SQLITE:
      return (await import('./agentchart.ts')).openAgentchart(provider.fetch, { store: 'sqlite' });
    case SQLITE_ONCE:
      return (await import('./agentchart.ts')).openAgentchart(provider.fetch, {
        store: 'sqlite',
        sideEffect: 'once',
      });
    case AI_SDK:
      return (await import('../peers/ai-sdk.ts')).openAiSdk(provider.fetch);
    case LANGGRAPH:
      return (await import('../peers/langgraph.js')).openLangGraph(provider.fetch);
    default:
      throw new Error(
        `There is no contender "${name}". They are: ${[...CONTENDERS, SQLITE_ONCE, ...PEERS].join('; ')}.`,
      );
  }
}

/** Throws when a run did not say what it had to. */
export function expectText(found: string, expected: string): void {
  if (found === expected) return;
  throw new Error(
    `Expected the run to end with "${expected.slice(0, 80)}", it ended with "${found.slice(0, 80)}".`,
  );
}

/** Throws when tools were not executed as often as the model asked. */
export function expectExecutions(contender: Contender, expected: number): void {
  const found = contender.executions();
  if (found !== expected) throw new Error(`Expected ${expected} executions of the tool, found ${found}.`);
}
