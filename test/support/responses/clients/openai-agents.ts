/** Typical uses of `@openai/agents` against the server at OPENAI_BASE_URL. Prints the results as JSON. */
import {
  Agent,
  hostedMcpTool,
  MemorySession,
  OpenAIConversationsSession,
  RunState,
  run,
  setDefaultOpenAIClient,
  setTracingDisabled,
  tool,
} from '@openai/agents';
import OpenAI from 'openai';
import { z } from 'zod';

setTracingDisabled(true);
setDefaultOpenAIClient(new OpenAI());

const agent = new Agent({
  name: 'Desk',
  model: 'approve-agents',
  tools: [
    hostedMcpTool({ serverLabel: 'desk', serverUrl: 'http://127.0.0.1:9/', requireApproval: 'always' }),
  ],
});

console.log(
  JSON.stringify({
    approve: await decide({ approve: true }),
    deny: await decide({ approve: false }),
    behind: await decide({ approve: true, behind: true }),
    stream: await decide({ approve: true, stream: true }),
    session: await converse(),
    hosted: await converseWithServer(),
    mixed: await mix(),
  }),
);

/** Two turns and a function call in a session whose items are stored in a conversation on the server. */
async function converse() {
  const client = new OpenAI();
  const session = new OpenAIConversationsSession({ client });
  const ask = tool({ name: 'ask', description: 'Asks.', parameters: z.object({}), execute: () => 'yes' });
  const talker = new Agent({ name: 'Talker', model: 'session-agents', tools: [ask] });
  const one = await run(talker, 'Ask me.', { session });
  const two = await run(talker, 'And now?', { session });
  const types = (await session.getItems()).map(item => item.type ?? 'message');
  const popped = await session.popItem();
  const left = (await session.getItems()).length;
  await session.clearSession();
  return { texts: [one.finalOutput, two.finalOutput], types, popped: popped?.type, left };
}

/** A turn with a hosted call that runs, a function, and a hosted call that waits; its state is serialized. */
async function mix() {
  const session = new MemorySession();
  const ask = tool({ name: 'ask', description: 'Asks.', parameters: z.object({}), execute: () => 'yes' });
  const desk = hostedMcpTool({
    serverLabel: 'desk',
    serverUrl: 'http://127.0.0.1:9/',
    requireApproval: { never: { toolNames: ['pid'] }, always: { toolNames: ['echo'] } },
  });
  const mixer = new Agent({ name: 'Mixer', model: 'mixed', tools: [ask, desk] });
  const asked = await run(mixer, 'Mix.', { session });
  const state = await RunState.fromString(mixer, asked.state.toString());
  for (const interruption of state.getInterruptions()) state.approve(interruption);
  const done = await run(mixer, state, { session });
  const next = await run(mixer, 'And now?', { session });
  return { asked: asked.interruptions.length, texts: [done.finalOutput, next.finalOutput] };
}

/** Two turns in a session, the first with a hosted MCP call. The SDK saves such calls without their ids and outputs. */
async function converseWithServer() {
  const session = new OpenAIConversationsSession({ client: new OpenAI() });
  const desk = hostedMcpTool({
    serverLabel: 'desk',
    serverUrl: 'http://127.0.0.1:9/',
    requireApproval: 'never',
  });
  const caller = new Agent({ name: 'Caller', model: 'hosted-agents', tools: [desk] });
  const one = await run(caller, 'Which process?', { session });
  const two = await run(caller, 'Thanks.', { session });
  const names = (await session.getItems()).map(item => ('name' in item ? item.name : item.type));
  return { texts: [one.finalOutput, two.finalOutput], names };
}

type Way = { approve: boolean; behind?: boolean; stream?: boolean };

/** Continues with previous_response_id if `behind` is set, otherwise with the full history, the SDK's default. */
async function decide({ approve, behind = false, stream = false }: Way) {
  const asked = await play('Say hi.', {});
  const [interruption] = asked.interruptions;
  if (interruption === undefined) throw new Error('nothing was asked');
  if (approve) asked.state.approve(interruption);
  else asked.state.reject(interruption, { message: 'not now' });
  const previousResponseId = behind ? asked.lastResponseId : undefined;
  const done = await play(asked.state, previousResponseId === undefined ? {} : { previousResponseId });
  return { asked: interruption.rawItem.type, text: done.finalOutput };

  async function play(
    input: string | RunState<undefined, typeof agent>,
    options: { previousResponseId?: string },
  ) {
    if (!stream) return await run(agent, input, options);
    const result = await run(agent, input, { ...options, stream: true });
    for await (const _event of result);
    await result.completed;
    return result;
  }
}
