export type Side = 'plain' | 'chart';

/** What was paid, from the file itself: `refund order-1042 $99.00`, a line for each payment. */
export type Ledger = { lines: string[]; cents: number };

export type ProcessState =
  | { is: 'starting' | 'running'; pid: number }
  /** `pid` was its last. */
  | { is: 'killed'; pid: number }
  /** It ended by itself with an error: it is not started again. */
  | { is: 'broken'; message: string }
  | { is: 'off' };

/** Where the plain loop stands. `said`: what the model said last, so far; `recorded`: how many steps are on record. */
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

/** All that the page shows, but for the run itself, which it follows by the runs API. */
export type DemoState = RoundState & { round: number };

/** The order both sides pay back. */
export const ORDER = { orderId: 'order-1042', cents: 9_900 };
