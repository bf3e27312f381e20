import type { ScriptedTurn } from '../../adapters/scripted.ts';
import { userMessage } from '../../protocol/message.ts';
import { ORDER } from './demo-state.ts';

/** The message that both sides receive. */
export const REQUEST = userMessage(`${ORDER.orderId} arrived broken. Please pay the customer back.`);

/** Returns the model's turns, the same on both sides. `modelMs` is the duration of a model call in ms. */
export function modelScript(modelMs: number): ScriptedTurn[] {
  return [
    {
      text: 'Paid, broken, within 30 days: the customer gets $99.00 back.',
      toolCalls: [{ name: 'refund', arguments: ORDER }],
      delayMs: modelMs,
    },
    { text: 'Done: $99.00 is on its way back to the customer.', delayMs: modelMs },
  ];
}
