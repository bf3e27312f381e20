import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import type { Pace } from '../setup.ts';
import { payOut } from './ledger.ts';

export const refundInput = z.strictObject({
  orderId: z.string().regex(/^order-\d+$/),
  cents: z.number().int().positive(),
});
export type RefundInput = z.infer<typeof refundInput>;

/** The tool of both sides: the money moves in the middle, and its reply comes later. */
export async function refund(
  input: RefundInput,
  { ledger, pace, signal }: { ledger: string; pace: Pace; signal?: AbortSignal },
): Promise<{ orderId: string; refundedCents: number }> {
  const until = signal === undefined ? {} : { signal };
  await delay(pace.before, undefined, until);
  payOut(ledger, input);
  await delay(pace.reply, undefined, until);
  return { orderId: input.orderId, refundedCents: input.cents };
}
