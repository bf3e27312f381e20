import type { Column } from './format-table.ts';

/** The figures of one repetition, by name; the unit is part of the name. */
export type Metrics = Record<string, number>;

/** One repetition: its metrics, and a digest of its requests to the provider (empty if they are not to be compared). */
export type Measurement = { metrics: Metrics; requests: string };

export type Workload = {
  /** The name for `--only`. */
  name: string;
  title: string;
  /** In the order of the table; ratios compare with the first. */
  contenders: readonly string[];
  /** Also measured with `--peers`. Their requests have another form, so only answers and tool calls are checked. */
  peers?: readonly string[];
  repetitions: number;
  columns: readonly Column[];
  /** Called once before the first repetition, in the main process. */
  prepare?(): void;
  /** Measures one repetition, in its own process. Rejects if a run has a wrong result. */
  measure(contender: string): Promise<Measurement>;
};
