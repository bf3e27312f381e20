import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { redactContents } from '../../../engine/journal/redaction/redact-contents.ts';
import { redactRun } from '../../../engine/journal/redaction/redact-run.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import { InDoubt } from '../../../protocol/error.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';

/** A run whose parcel is shipped in the background, to an address that has to be redacted. */
async function ship(run: () => unknown) {
  const store = memory();
  const agent = createAgent({
    name: 'shop',
    store,
    model: scripted([
      calls(['ship', { to: 'Elm Street 4' }]),
      { text: 'On its way.' },
      { text: 'Done.' },
      { text: 'Done.' },
    ]),
    tools: [makeTool('ship', { background: true, run })],
  });
  const parent = await agent.start('Go.');
  await parent.settled();
  const [child] = (await store.list({ parent: parent.id })).runs;
  return { store, parent, childId: child?.runId ?? '' };
}

const INPUT = ['/1/onlyCall/input/to', '/1/input/0/arguments'];

test('the input of the work of a call is redacted with its result once it has ended', async () => {
  const { store, parent, childId } = await ship(() => 'left at Elm Street 4');
  const settled = (await store.read(childId)).find(({ event }) => event.type === 'tool.settled');
  await redactRun(store, childId, { paths: [...INPUT, `/${settled?.seq}/output`] });
  const text = JSON.stringify([await store.read(childId), await store.loadSnapshot(childId)]);
  expect(text).not.toContain('Elm Street');
  expect(await replayRun(store, childId)).toMatchObject({ equal: true });
  const received = (await store.read(parent.id)).find(({ event }) => event.type === 'message.received');
  const turn = (await store.read(parent.id)).find(({ event }) => event.type === 'turn.completed');
  const paths = [
    `/${received?.seq}/items/0/content/1/text`,
    `/${turn?.seq}/calls/0/input/to`,
    `/${turn?.seq}/items/0/arguments`,
  ];
  expect(await redactRun(store, parent.id, { paths })).toMatchObject({ elsewhere: [] });
  expect(JSON.stringify(await store.read(parent.id))).not.toContain('Elm Street');
  expect(await replayRun(store, parent.id)).toMatchObject({ equal: true });
});

test('the input of the work of a call is not redacted while the call may still need it', async () => {
  const { store, childId } = await ship(() => {
    throw new InDoubt('Perhaps.');
  });
  await expect(redactRun(store, childId, { paths: INPUT.slice(0, 1) })).rejects.toMatchObject({
    code: 'refused',
  });
});

test('a copy without contents of a run with background work has none of them', async () => {
  const { store, parent, childId } = await ship(() => 'left at Elm Street 4');
  for (const runId of [parent.id, childId]) {
    const copy = JSON.stringify(redactContents(await store.read(runId)));
    expect(copy).not.toContain('Elm Street');
  }
});
