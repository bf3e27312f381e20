import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createAgent } from '../../../agent/agent.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { forkRun } from '../../../engine/run/forks/fork-run.ts';
import { toStored } from '../../../machines/snapshot.ts';
import { textOf } from '../../../protocol/message.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { eventsOf, makeTracedTool, resultsIn } from '../../support/engine/agents.ts';
import { clientCalls } from '../../support/engine/client-calls.ts';
import { finishedRun, foldOf, seqOf, startedIn } from '../../support/engine/forked-run.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';
import { recipes, recordRun } from '../../support/engine/recorded-run.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

describe('a fork with a message', () => {
  test('has the message as its last entry, written with its creation, and the next turn reads it', async () => {
    const [host, memoryStore, written] = [new ManualHost(), memory(), [] as string[]];
    const store = watchStore(memoryStore, { before: method => void written.push(method) });
    const { model, requests } = recordRequests(answerWith(() => ({ text: 'Noted.' })));
    const run = await createAgent({ name: 'a', host, store, model }).start('go');
    await host.settle(run.settled());
    const at = seqOf(await eventsOf(store, run.id), 'run.claimed');
    written.length = 0;
    const fork = await run.fork({ at, message: 'In cents.', by: 'ann' });
    expect(written.filter(method => method !== 'read')).toEqual(['create']);
    const last = (await eventsOf(store, fork.id)).at(-1);
    expect(last).toMatchObject({ type: 'message.received', by: 'ann', at: host.now() });
    expect((await host.settle(fork.settled())).status).toBe('finished');
    expect(requests.at(-1)?.transcript.map(textOf)).toEqual(['go', 'Noted.', 'In cents.']);
  });

  test('rejects the gated calls, as a message to any run of its agent does', async () => {
    const { host, keys, run, events } = await finishedRun();
    const at = seqOf(events, 'approval.decided') - 1;
    const before = keys.length;
    const fork = await run.fork({ at, message: 'Leave it.' });
    expect((await host.settle(fork.settled())).status).toBe('finished');
    expect(keys.slice(before)).toEqual([`${fork.id}:2:call_1_0`]);
    const results = resultsIn(fork.context.transcript);
    expect(results.call_0_1).toBe('Not run: superseded by a new message.');
  });

  test('has the calls that were running in doubt', async () => {
    const { host, run, events } = await finishedRun();
    const at = seqOf(events, 'tool.started', 2);
    const fork = await run.fork({ at, message: 'And?' });
    const waiting = await host.settle(fork.settled());
    expect(waiting).toMatchObject({ status: 'waiting', doubts: [{ callId: 'call_0_1' }] });
  });

  test('at the end of a run is refused, naming the last entry that accepts a message, and creates no run', async () => {
    const { host, store, run, events } = await finishedRun();
    const refused = await run.fork({ at: events.length, message: 'And?' }).catch(error => error);
    expect(refused).toMatchObject({ code: 'run-ended', message: expect.stringContaining('continues') });
    expect((await store.list()).runs).toHaveLength(1);
    const { last } = refused.details;
    expect(refused.message).toContain(`entry ${last} or earlier`);
    await expect(run.fork({ at: last + 1, message: 'And?' })).rejects.toMatchObject({ code: 'run-ended' });
    const fork = await run.fork({ at: last, message: 'And?' });
    await host.settle(fork.settled());
    expect(fork.context.transcript.map(textOf)).toContain('And?');
  });

  test('with an empty message creates no run', async () => {
    const { store, run } = await finishedRun();
    await expect(run.fork({ at: 1, message: [] })).rejects.toMatchObject({ code: 'input-invalid' });
    expect((await store.list()).runs).toHaveLength(1);
  });

  test('of any run, at any entry, folds, continues, and never runs a call that its source had started', async () => {
    let forks = 0;
    await fc.assert(
      fc.asyncProperty(recipes, fc.nat(), fc.boolean(), async (recipe, place, withMessage) => {
        const { host, store, agent, run } = await recordRun(recipe);
        const entries = await store.read(run.id);
        const at = (place % entries.length) + 1;
        const begun = entries
          .slice(0, at)
          .flatMap(({ event }) => (event.type === 'tool.started' ? [event.callId] : []));
        const hasEnded = foldOf(entries.slice(0, at)).status !== 'active';
        const options = withMessage && !hasEnded ? { message: 'And then?' } : {};
        const { runId, loaded } = await forkRun({ store, host }, run.id, at, options);
        expect(toStored((await loadRun(store, runId)).state)).toEqual(toStored(loaded.state));

        const keys: string[] = [];
        const tools = ['act', 'fail'].map(name => makeTracedTool(name, keys));
        const others = agent.options.tools?.filter(
          tool => !('name' in tool && /^(act|fail)$/.test(tool.name)),
        );
        const fork = await createAgent({ ...agent.options, tools: [...(others ?? []), ...tools] }).open(
          runId,
        );
        for (;;) {
          const settled = await host.settle(fork.settled());
          if (settled.status !== 'waiting') break;
          const clients = clientCalls(settled);
          const open = [...settled.approvals, ...clients];
          if (open.length === 0) {
            expect(settled.doubts.map(({ callId }) => callId)).toEqual(startedIn(entries.slice(0, at)));
            break;
          }
          for (const { callId } of settled.approvals) await fork.approve(callId);
          for (const { callId } of clients) await fork.answer(callId, { output: 1 });
        }
        for (const callId of begun) expect(keys.filter(key => key.endsWith(`:${callId}`))).toEqual([]);
        if ('message' in options)
          expect(fork.context.transcript.map(textOf).join() + fork.context.inbox.map(textOf)).toContain(
            options.message,
          );
        forks += 1;
      }),
      { numRuns: 120 },
    );
    expect(forks).toBe(120);
  });
});
