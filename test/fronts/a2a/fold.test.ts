import type { Client } from '@a2a-js/sdk/client';
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { a2aClient, a2aServer, allOf, foldUpdates, seen, sending } from '../../support/fronts/a2a.ts';
import { ASK, makeDesk, REFUND } from '../../support/fronts/mcp.ts';

const words = fc.array(fc.constantFrom('one', 'two', 'three'), { maxLength: 6 }).map(each => each.join(' '));
const round = fc.record({ preamble: words, calls: fc.subarray([REFUND, ASK], { minLength: 1 }) });
const conversation = fc.record({
  rounds: fc.array(round, { maxLength: 2 }),
  answer: words,
  isApproved: fc.boolean(),
  isFollowed: fc.boolean(),
});

function turnOf({ preamble, calls }: { preamble: string; calls: ScriptedTurn[] }): ScriptedTurn {
  const toolCalls = calls.flatMap(call => call.toolCalls ?? []);
  return { toolCalls, ...(preamble !== '' && { text: preamble }) };
}

/** Sends a message and folds the updates of its stream, or of a subscription from its first step to its end. */
async function sendAndFold(client: Client, sent: Parameters<typeof sending>[0]) {
  return foldUpdates(await allOf(client.sendMessageStream(sending(sent))));
}

it('the task folded from its streams is the task that is stored, and the settled value of the run', async () => {
  await fc.assert(
    fc.asyncProperty(conversation, async ({ rounds, answer, isApproved, isFollowed }) => {
      const agent = makeDesk([...rounds.map(turnOf), { text: answer }]);
      const server = a2aServer([agent]);
      try {
        const client = await a2aClient(server, 'JSONRPC');
        let folded = await sendAndFold(client, { text: 'go' });
        const [record] = (await agent.store.list({})).runs;
        const taskId = record?.runId ?? '';
        const get = async () => seen(await client.getTask({ tenant: '', id: taskId }));
        const following =
          isFollowed && rounds.length > 0 ? client.resubscribeTask({ tenant: '', id: taskId }) : null;
        const first = await following?.next();
        const followed = following === null ? null : allOf(following);
        for (;;) {
          expect(seen(folded)).toEqual(await get());
          const settled = await (await agent.open(taskId)).settled();
          if (settled.status !== 'waiting') break;
          const [approval] = settled.approvals;
          const [result] = settled.open.filter(open => open.kind === 'result');
          const data =
            approval === undefined
              ? { callId: result?.callId ?? '', output: 'blue' }
              : { callId: approval.callId, approved: isApproved };
          folded = await sendAndFold(client, { data, taskId });
        }
        const settled = await (await agent.open(taskId)).settled();
        expect(settled).toMatchObject({ status: 'finished', text: answer });
        expect(seen(folded).answer).toEqual([answer]);
        if (followed !== null)
          expect(
            seen(foldUpdates([...(first?.done ? [] : [first?.value as never]), ...(await followed)])),
          ).toEqual(await get());
      } finally {
        server.close();
      }
    }),
    { numRuns: 12 },
  );
});
