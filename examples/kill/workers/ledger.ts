import { appendFileSync, readFileSync } from 'node:fs';
import type { Ledger } from '../demo-state.ts';
import { formatDollars } from '../format-dollars.ts';

const LINE = /^refund order-\d+ \$(\d+)\.(\d\d)$/;

/** Reads a ledger file; a missing file is empty. */
export function readLedger(file: string): Ledger {
  const lines = readText(file)
    .split('\n')
    .filter(line => line !== '');
  return { lines, cents: lines.reduce((sum, line) => sum + centsOf(line), 0) };
}

/** Appends a payment in one write, so that a kill cannot leave a partial line. */
export function payOut(file: string, { orderId, cents }: { orderId: string; cents: number }): void {
  appendFileSync(file, `refund ${orderId} ${formatDollars(cents)}\n`);
}

function centsOf(line: string): number {
  const [, dollars, cents] = LINE.exec(line) ?? [];
  return Number(dollars ?? 0) * 100 + Number(cents ?? 0);
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
