import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent, memory, type Store } from '../../../agent/index.ts';
import { calls, makeTool } from '../engine/agents.ts';

/** `shop` asks `desk`, which looks an order up and asks `payer`, whose refund a person approves. */
export function makeFamily(store: Store = memory(), refund = 'refund'): Agent[] {
  const payer = createAgent({
    name: 'payer',
    store,
    tools: [makeTool(refund, { approval: true, run: () => 'paid' })],
    model: scripted([calls([refund, { orderId: 'A-1001', cents: 4200 }]), { text: 'Paid.' }]),
  });
  const desk = createAgent({
    name: 'desk',
    store,
    tools: [
      makeTool('look_up', { sideEffect: 'none', run: () => 'broken' }),
      payer.asTool({ name: 'pay', description: 'Pays back.' }),
    ],
    model: scripted([
      calls(['look_up', { order: 'A-1001' }]),
      calls(['pay', { input: 'Pay A-1001 back.' }]),
      { text: 'It was paid.' },
    ]),
  });
  const shop = createAgent({
    name: 'shop',
    store,
    tools: [desk.asTool({ name: 'ask_desk', description: 'Asks the desk.' })],
    model: scripted([calls(['ask_desk', { input: 'What about A-1001?' }]), { text: 'Ada has her money.' }]),
  });
  return [shop, desk, payer];
}
