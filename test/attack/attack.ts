import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AttackCase, CaseKind } from './attack-case.ts';
import { CASE_KINDS } from './cases.ts';
import { countBy, FIGURES, type Figure, type Finding } from './finding.ts';
import { type CaseResult, runCase } from './run-case.ts';

export const KINDS = ['mcp', 'providers', 'gateway', 'journals'] as const;
export type Kind = (typeof KINDS)[number];

export type AttackOptions = {
  kinds: readonly Kind[];
  seed: number;
  /** The short form: the cases that are quick. */
  isShort: boolean;
  /** Only the careless stand-ins. */
  onlyControl?: boolean;
  /** How long one case may take, in ms. */
  longestMs: number;
  lanes: number;
  onResult?(result: CaseResult, isControl: boolean): void;
};

export type Report = {
  figures: Record<Figure, number>;
  cases: number;
  /** The longest stretch that any process worked without a pause, in ms of processor time. */
  busyMs: number;
  seconds: number;
  /** How many careless stand-ins there were, and how many were found out. */
  control: { cases: number; caught: number };
  /** What was found, in a line each. */
  problems: string[];
};

type Planned = { kind: CaseKind; attack: AttackCase };

/** Attacks in every kind that is asked for, and holds each kind's careless stand-in to be found out. */
export async function runAttacks(options: AttackOptions): Promise<Report> {
  const startedAt = performance.now();
  const folder = mkdtempSync(join(tmpdir(), 'agentchart-attack-'));
  mkdirSync(folder, { recursive: true });
  const results: CaseResult[] = [];
  const controls: CaseResult[] = [];
  try {
    const queue = await planCases(options);
    const lane = async () => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        const { kind, attack } = next;
        const isControl = attack.control === true;
        const result = await runCase(kind, attack, { ...options, folder });
        (isControl ? controls : results).push(result);
        options.onResult?.(result, isControl);
      }
    };
    await Promise.all(Array.from({ length: options.lanes }, lane));
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
  return describe(results, controls, (performance.now() - startedAt) / 1_000);
}

async function planCases({ kinds, isShort, onlyControl }: AttackOptions): Promise<Planned[]> {
  const planned: Planned[] = [];
  for (const kind of kinds) {
    for (const attack of await CASE_KINDS[kind]()) {
      const isWanted = onlyControl === true ? attack.control === true : !isShort || attack.short === true;
      if (isWanted) planned.push({ kind, attack });
    }
  }
  return planned;
}

function describe(results: readonly CaseResult[], controls: readonly CaseResult[], seconds: number): Report {
  const findings: Finding[] = results.flatMap(result => result.findings);
  const missed = controls.filter(control => control.findings.length === 0);
  return {
    figures: countBy(findings),
    cases: results.length,
    busyMs: Math.max(0, ...results.map(({ busyMs }) => busyMs)),
    seconds,
    control: { cases: controls.length, caught: controls.length - missed.length },
    problems: [
      ...results.flatMap(({ name, findings: found }) =>
        found.map(({ figure, what }) => `${figure}: ${name}: ${what}`),
      ),
      ...missed.map(({ name }) => `${name} was not found out: this attack proves nothing`),
    ],
  };
}

export function hasProblems({ figures, problems }: Report): boolean {
  return problems.length > 0 || FIGURES.some(figure => figures[figure] > 0);
}
