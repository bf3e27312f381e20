import type { Column } from './format-table.ts';

/** What one repetition measured, by name; the unit is in the name. */
export type Metrics = Record<string, number>;

/** One repetition: its metrics, and what was asked of the provider (a digest; empty where nothing was). */
export type Measurement = { metrics: Metrics; requests: string };

export type Workload = {
  /** What `--only` takes. */
  name: string;
  title: string;
  /** In the order of the table; ratios are to the first. */
  contenders: readonly string[];
  /** Measured too with `--peers`. Their requests differ in form, so only their answers and tool calls are checked. */
  peers?: readonly string[];
  repetitions: number;
  columns: readonly Column[];
  /** Once, before any repetition, in the process that prints. */
  prepare?(): void;
  /** One repetition, in a process of its own. Rejects when a run did not end as it must. */
  measure(contender: string): Promise<Measurement>;
};
