import type { Contender } from '../contenders/contender.ts';

/** LangGraph.js with its prebuilt agent and no checkpointer. JavaScript: its types are not installed with ours. */
export function openLangGraph(fetch: typeof globalThis.fetch): Contender;
