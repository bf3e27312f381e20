import type { Equivalent } from './rooms.ts';

/** Mutants that behave as the code does, so that no test can catch them. */
export const EQUIVALENTS: readonly Equivalent[] = [
  {
    file: 'stores/postgres/database.ts',
    from: "const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;",
    to: "const code = cause instanceof Error || 'code' in cause ? cause.code : undefined;",
    why: 'what an import rejects with is an Error, whose missing code reads as undefined',
  },
  {
    file: 'stores/postgres/appends.ts',
    from: 'const inOrder = beside.toSorted((one, other) => (one.runId < other.runId ? -1 : 1));',
    to: 'const inOrder = beside.toSorted((one, other) => (one.runId <= other.runId ? -1 : 1));',
    why: 'the order only has to be the same in every transaction, and no run is changed twice in one',
  },
];
