import { afterEach, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../agent/agent.ts';
import { createChatHandler } from '../../fronts/ai-sdk-ui/index.ts';
import { textOf } from '../../protocol/message.ts';
import type { Store } from '../../protocol/store.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { a2aClient, a2aServer, sending } from '../support/fronts/a2a.ts';
import { AgUiDesk } from '../support/fronts/ag-ui-desk.ts';
import { ChatPage } from '../support/fronts/ai-sdk-ui/chat-page.ts';
import { makeFile } from '../support/stores/make-file.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Says something in the thread `t`, through a server of its own. */
type Say = (text: string) => Promise<unknown>;

const FRONTS: Record<string, (agent: Agent) => Promise<Say>> = {
  async useChat(agent) {
    const page = new ChatPage(createChatHandler(agent, { authorize: () => ({ name: 'ann' }) }), { id: 't' });
    return text => page.chat.sendMessage({ text });
  },
  async 'AG-UI'(agent) {
    const desk = await AgUiDesk.open(agent, { authorize: () => ({ name: 'ann' }) });
    closing.push(() => desk.close());
    const client = desk.client('t');
    return text => client.say(text);
  },
  async A2A(agent) {
    const server = a2aServer([agent]);
    closing.push(() => server.close());
    const client = await a2aClient(server, 'JSONRPC');
    return text => client.sendMessage(sending({ text, contextId: 't' }));
  },
};

/** An agent of one server, over the file that the servers share. */
function open(file: string): Agent {
  const store = sqlite(file);
  closing.push(() => store.close());
  const turns = Array.from({ length: 9 }, (_, turn) => ({ text: `Answer ${turn}.`, delayMs: 20 }));
  return createAgent({ name: 'desk', store, model: scripted(turns) });
}

/** Each run of the thread, in order, with the run before it, and what was said in it. */
async function conversationIn(store: Store) {
  const { runs } = await store.list({ thread: 't' });
  const inOrder = runs.sort((one, other) => (one.place ?? 0) - (other.place ?? 0));
  const said: string[] = [];
  for (const { runId } of inOrder)
    for (const { event } of await store.read(runId)) {
      if (event.type === 'run.started') said.push(...event.input.map(textOf));
      if (event.type === 'message.received') said.push(...event.items.map(textOf));
    }
  const before = inOrder.map(({ continues }) => continues);
  return { before, ids: inOrder.map(({ runId }) => runId), said };
}

test.each(Object.entries(FRONTS))(
  'over %s, two servers that get the first messages of a thread at once begin one conversation',
  async (_, front) => {
    for (let round = 0; round < 5; round += 1) {
      const file = makeFile();
      const agents = [open(file), open(file)];
      const says = await Promise.all(agents.map(agent => front(agent)));
      await Promise.all(says.map((say, index) => say(`message ${index}`)));
      const store = agents[0]?.store as Store;
      const { before, ids, said } = await conversationIn(store);
      expect(before).toEqual([undefined, ...ids.slice(0, -1)]);
      expect(said.toSorted()).toEqual(['message 0', 'message 1']);
    }
  },
);
