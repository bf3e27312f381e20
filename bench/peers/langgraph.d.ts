import type { Contender } from '../contenders/contender.ts';

/** Opens LangGraph.js with its prebuilt agent and no checkpointer. In JavaScript, because its types are not installed. */
export function openLangGraph(fetch: typeof globalThis.fetch): Contender;
