import { rmSync } from 'node:fs';
import { sqlite } from '../../../stores/sqlite.ts';
import { type CommandEnd, runCommand } from '../run-command.ts';

type Refund = { agent: string; db: string; ledger: string; env: Record<string, string> };

/** Whether the refund of an earlier start is not decided yet. */
export async function isRefundOpen(db: string): Promise<boolean> {
  const store = sqlite(db);
  const { runs } = await store.list({ agent: 'refunds', status: 'waiting', limit: 1 });
  await store.close();
  return runs.length > 0;
}

/** Starts a refund and kills its process right after the payment, with an empty file of payments before it. */
export async function killRefund({ agent, db, ledger, env }: Refund): Promise<CommandEnd> {
  rmSync(ledger, { force: true });
  const task = 'order-1042 arrived broken. Please pay the customer back.';
  return await runCommand(['run', '--db', db, '--agent', agent, '--yes', task], {
    ...env,
    // The agent plays its own script; the variable would override it.
    AGENTCHART_MODEL: '',
    REFUNDS_CRASH: 'after-payment',
  });
}
