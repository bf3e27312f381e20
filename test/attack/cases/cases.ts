import type { AttackCase, CaseKind } from './attack-case.ts';

/** The cases of each kind, imported on demand, so that a case's process loads nothing else. */
export const CASE_KINDS: Readonly<Record<CaseKind, () => Promise<readonly AttackCase[]>>> = {
  mcp: async () => (await import('./mcp-cases.ts')).mcpCases,
  providers: async () => (await import('./provider-cases.ts')).providerCases,
  gateway: async () => (await import('./gateway-cases.ts')).gatewayCases,
  journals: async () => (await import('./journal-cases.ts')).journalCases,
  readers: async () => (await import('./readers/reader-cases.ts')).readerCases,
  forks: async () => (await import('./fork-cases.ts')).forkCases,
  redactions: async () => (await import('./redactions/redaction-cases.ts')).redactionCases,
};

export function isCaseKind(text: string): text is CaseKind {
  return Object.hasOwn(CASE_KINDS, text);
}
