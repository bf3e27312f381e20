export type Side = 'plain' | 'chart';

/** The payments in a ledger file, one line each: `refund order-1042 $99.00`. */
export type Ledger = { lines: string[]; cents: number };

export type ProcessState =
  | { is: 'starting' | 'running'; pid: number }
  /** `pid` is the killed process's. */
  | { is: 'killed'; pid: number }
  /** The process ended with an error and is not restarted. */
  | { is: 'broken'; message: string }
  | { is: 'off' };

/** The progress of the plain loop. `said` is the model's latest text so far; `recorded` is the number of recorded steps. */
export type LoopState = {
  at: 'model' | 'askPerson' | 'refund' | 'finished';
  said: string;
  recorded: number;
};

export type SideState = { process: ProcessState; kills: number; file: string; ledger: Ledger };

export type RoundState = {
  plain: SideState & { loop: LoopState | null };
  chart: SideState & { runId: string | null };
};

/** Everything the page shows except the run itself, which it follows through the runs API. */
export type DemoState = RoundState & { round: number };

/** The order that both sides refund. */
export const ORDER = { orderId: 'order-1042', cents: 9_900 };
