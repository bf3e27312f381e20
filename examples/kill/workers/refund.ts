import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import { omitUndefined } from '../../../protocol/json.ts';
import type { Pace } from '../setup.ts';
import { payOut } from './ledger.ts';

export const refundInput = z.strictObject({
  orderId: z.string().regex(/^order-\d+$/),
  cents: z.number().int().positive(),
});
type RefundInput = z.infer<typeof refundInput>;

/** The tool of both sides. It pays after `pace.before` ms and replies after another `pace.reply` ms. */
export async function refund(
  input: RefundInput,
  { ledger, pace, signal }: { ledger: string; pace: Pace; signal?: AbortSignal },
): Promise<{ orderId: string; refundedCents: number }> {
  const options = omitUndefined({ signal });
  await delay(pace.before, undefined, options);
  payOut(ledger, input);
  await delay(pace.reply, undefined, options);
  return { orderId: input.orderId, refundedCents: input.cents };
}
