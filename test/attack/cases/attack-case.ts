import type { Finding } from './finding.ts';

/** The environment of a case: its own folder, and a seed for generated data. */
type CaseWorld = { folder: string; seed: number };

/** One attack, in its own process. Resolves with its findings; an exception counts as a finding too. */
export type AttackCase = {
  name: string;
  run(world: CaseWorld): Promise<Finding[]>;
  /** Whether the short form includes the case. */
  short?: boolean;
  /** Marks a careless stand-in for the code under attack: the case must find something. */
  control?: boolean;
};

export type CaseKind = 'mcp' | 'providers' | 'gateway' | 'journals' | 'readers' | 'redactions' | 'forks';
