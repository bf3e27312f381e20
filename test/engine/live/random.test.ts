import fc from 'fast-check';
import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import type { Context } from '../../../machines/context.ts';
import { toolResults } from '../../../machines/tool-results.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { ToolCallContext } from '../../../protocol/tool.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { answersTo, begin, makeAgent, rest } from '../../support/engine/live-actors.ts';
import { randomCases } from '../../support/sample.ts';

const anyTool = fc.constantFrom('read', 'pay', 'save', 'act', 'show');
const anyRounds = fc.array(fc.array(anyTool, { minLength: 1, maxLength: 4 }), { maxLength: 3 });
/** What becomes of each `persist`, in order; the later ones succeed. `lost`: the snapshot is stored all the same. */
const anyStorage = fc.array(fc.constantFrom('stored', 'rejects', 'throws', 'lost', 'slow', 'hangs'), {
  maxLength: 30,
});

type Played = { value: unknown; executions: string[]; unjournaled: string[]; context: Context };

/** Plays a run to its end. It is unpaused when its storage lets it rest, and its calls are approved and answered. */
async function play(rounds: readonly string[][], storage: readonly string[]): Promise<Played> {
  const host = new ManualHost();
  const executions: string[] = [];
  const unjournaled: string[] = [];
  const outcomes = [...storage];
  let stored: Context | undefined;
  let inProgress = 0;
  const traced = (name: string, options: Parameters<typeof makeTool>[1]) =>
    makeTool(name, {
      ...options,
      run: async (_: unknown, { callId, attempt, key }: ToolCallContext) => {
        executions.push(`${callId} ${attempt} ${key}`);
        const call = stored?.calls.find(known => known.callId === callId);
        if (call?.status !== 'running' || call.attempt !== attempt) unjournaled.push(callId);
        await new Promise<void>(resolve => host.setTimer(callId.length * 10, resolve));
        return `${name} ran`;
      },
    });
  const script = scripted([...rounds.map(round => calls(...round)), { text: 'done' }]);
  const model: ModelAdapter = {
    ...script,
    provider: script.provider,
    model: script.model,
    capabilities: script.capabilities,
    stream: script.stream.bind(script),
    generate: (request, options) => {
      if (stored?.turns !== actor.getSnapshot().context.turns) unjournaled.push('model');
      executions.push(`model ${request.transcript.length}`);
      return script.generate(request, options);
    },
  };
  const agent = makeAgent({ turns: [], model }, host, [
    traced('read', { sideEffect: 'none' }),
    traced('pay', { sideEffect: 'once' }),
    traced('save', { sideEffect: 'idempotent' }),
    traced('act', { approval: true }),
  ]);
  const actor = begin(agent, 'go', {
    patienceMs: 700,
    persist: snapshot => {
      const { context } = snapshot as { context: Context };
      inProgress += 1;
      if (inProgress > 1) unjournaled.push('two at once');
      const end = () => {
        inProgress -= 1;
      };
      const keep = () => {
        stored = context;
        end();
      };
      const outcome = outcomes.shift() ?? 'stored';
      if (outcome === 'throws') {
        end();
        throw new Error('away');
      }
      if (outcome === 'rejects') return Promise.reject(new Error('away')).finally(end);
      if (outcome === 'lost') {
        keep();
        return Promise.reject(new Error('the reply was lost'));
      }
      const ms = { slow: 300, hangs: 2_000 }[outcome] ?? 0;
      return new Promise<void>(resolve => host.setTimer(ms, resolve)).then(keep);
    },
  });
  for (;;) {
    await rest(host, actor);
    const { context, status, value } = actor.getSnapshot();
    if (status !== 'active') return { value, executions, unjournaled, context };
    if (context.quarantined !== null) actor.send({ type: 'run.unpaused', at: host.now() });
    else for (const answer of answersTo(context, host.now())) actor.send(answer);
  }
}

const outcomeOf = ({ value, context }: Played) => ({
  value,
  results: toolResults(context),
  transcript: context.transcript,
  answer: context.answer,
  turns: context.turns,
  toolCalls: context.toolCalls,
  usage: context.usage,
});

test('however persist fails, nothing runs twice or unjournaled, and the run ends as without failures', async () => {
  await fc.assert(
    fc.asyncProperty(anyRounds, anyStorage, async (rounds, storage) => {
      const [failing, sound] = [await play(rounds, storage), await play(rounds, [])];
      expect(failing.unjournaled).toEqual([]);
      expect(failing.executions.toSorted()).toEqual(sound.executions.toSorted());
      expect(new Set(failing.executions).size).toBe(failing.executions.length);
      expect(outcomeOf(failing)).toEqual(outcomeOf(sound));
    }),
    { numRuns: randomCases(25) },
  );
});
