import type { Finding } from './finding.ts';

/** What a case works with: a folder of its own, and a seed for what it makes up. */
type CaseWorld = { folder: string; seed: number };

/** One attack, in a process of its own. It resolves with what it found; what it throws is a finding too. */
export type AttackCase = {
  name: string;
  run(world: CaseWorld): Promise<Finding[]>;
  /** In the short form too. */
  short?: boolean;
  /** A careless stand-in for the code under attack: the case must find something. */
  control?: boolean;
};

export type CaseKind = 'mcp' | 'providers' | 'gateway' | 'journals';
