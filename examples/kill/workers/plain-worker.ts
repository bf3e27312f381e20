/** The process of the left side: the plain loop with a recorded model and its record file. */
import { join } from 'node:path';
import { scripted } from '../../../adapters/scripted.ts';
import type { Item } from '../../../protocol/item.ts';
import { textOf } from '../../../protocol/message.ts';
import type { ToolCall } from '../../../protocol/turn.ts';
import { readOrders, report } from '../server/process-messages.ts';
import { readSetup } from '../setup.ts';
import { modelScript, REQUEST } from '../story.ts';
import { plainLoop } from './plain-loop.ts';
import { PlainRecord } from './plain-record.ts';
import { refund, refundInput } from './refund.ts';

const { folder, pace } = readSetup();
const ledger = join(folder, 'plain-ledger.txt');
const record = new PlainRecord(join(folder, 'plain-record.json'));
const adapter = scripted(modelScript(pace.model));
const orders = readOrders();
const conversation: Item[] = [REQUEST];

report({ type: 'ready' });
await orders.next('begin');
const answer = await plainLoop({
  transcript: conversation,
  model,
  askPerson: async () => {
    reportStep('askPerson');
    await orders.next('approve');
    return { approved: true };
  },
  refund: async (call: ToolCall) => {
    reportStep('refund');
    return await refund(refundInput.parse(call.input), { ledger, pace });
  },
  step: record.step,
});
report({ type: 'plain', at: 'finished', said: answer, recorded: record.length });

async function model(transcript: readonly Item[]) {
  const request = { transcript: [...transcript], tools: [], toolChoice: 'auto', settings: {} } as const;
  let text = '';
  reportStep('model', text);
  for await (const delta of adapter.stream(request, { signal: new AbortController().signal })) {
    if (delta.type === 'turn') return delta.turn;
    if (delta.type !== 'text') continue;
    text += delta.text;
    reportStep('model', text);
  }
  throw new Error('The model ended without a turn.');
}

function reportStep(at: 'model' | 'askPerson' | 'refund', said = lastText()): void {
  report({ type: 'plain', at, said, recorded: record.length });
}

function lastText(): string {
  const last = conversation.findLast(item => item.type === 'message' && item.role === 'assistant');
  return last === undefined ? '' : textOf(last);
}
