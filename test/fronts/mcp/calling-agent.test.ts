import { expect, it } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { memory } from '../../../stores/memory.ts';
import { mcp } from '../../../tools/mcp.ts';
import { calls, resultsIn } from '../../support/engine/agents.ts';
import { closeAfterTests } from '../../support/fronts/close-after-tests.ts';
import { DONE, type Ledger, makeDesk, mcpServer, REFUND } from '../../support/fronts/mcp.ts';

const used = closeAfterTests();

it('an agent that calls another over MCP waits with its approval, which decides there', async () => {
  const ledger: Ledger = [];
  const agent = makeDesk([REFUND, DONE], ledger);
  const first = used(mcpServer([agent]));
  const store = memory();
  const model = scripted([calls(['desk', { input: 'Refund A-1' }]), { text: 'It is done.' }]);
  const callerOf = ({ url, send }: typeof first) => {
    const fetch = (input: string | URL, init?: RequestInit) => send(String(input), init);
    const tools = [used(mcp({ name: 'office', url: url.href, fetch, credentials: false }))];
    return createAgent({ name: 'caller', store, model, tools });
  };
  const run = await callerOf(first).start('Refund A-1');
  const settled = await run.settled();
  const [open] = settled.status === 'waiting' ? settled.questions : [];
  expect(open?.questions).toMatchObject([
    { key: 'task.call_0_0', message: expect.stringMatching(/^The MCP server "office" asks: .*refund/s) },
  ]);
  first.close();

  const later = await callerOf(used(mcpServer([agent]))).open(run.id);
  await later.answer('call_0_0', { answers: { 'task.call_0_0': {} } });
  expect(await later.settled()).toMatchObject({ status: 'finished', text: 'It is done.' });
  expect(resultsIn(later.context.transcript)).toEqual({ call_0_0: 'Done.' });
  expect(ledger).toEqual([4200]);
});
