import type { Contender } from '../contenders/contender.ts';

/** Opens Mastra with an agent of its own: no storage, no memory, no retries. In JavaScript, because its types are not installed. */
export function openMastra(fetch: typeof globalThis.fetch): Contender;
