import type { Contender } from '../contenders/contender.ts';

/**
 * Opens LangGraph.js with its prebuilt agent, and with the checkpointer `kind`: each run is a thread of its own.
 * In JavaScript, because its types are not installed.
 */
export function openLangGraph(fetch: typeof globalThis.fetch, kind: 'none' | 'memory' | 'sqlite'): Contender;
